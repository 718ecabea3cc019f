package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestSignals(t *testing.T) {
	tests := []struct {
		name   string
		got    []os.Signal
		apart  time.Duration
		want   []string
		ending os.Signal
	}{
		{name: "none", want: []string{"cancel"}},
		{
			name: "one ends the context", got: []os.Signal{syscall.SIGTERM},
			want: []string{"first terminated", "cancel", "cancel"}, ending: syscall.SIGTERM,
		},
		{
			name: "the second ends the process", got: []os.Signal{syscall.SIGINT, syscall.SIGINT}, apart: sameSignal,
			want: []string{"first interrupt", "cancel", "exit 130", "cancel"}, ending: syscall.SIGINT,
		},
		{
			name: "also another one", got: []os.Signal{syscall.SIGINT, syscall.SIGTERM}, apart: sameSignal,
			want: []string{"first interrupt", "cancel", "exit 143", "cancel"}, ending: syscall.SIGINT,
		},
		{
			name: "one that is sent twice is one", got: []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, apart: sameSignal - 1,
			want: []string{"first terminated", "cancel", "cancel"}, ending: syscall.SIGTERM,
		},
		{
			name: "a hangup counts for nothing", got: []os.Signal{syscall.SIGHUP, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGHUP},
			want: []string{"hangup", "hangup", "first terminated", "cancel", "hangup", "cancel"}, ending: syscall.SIGTERM,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var did []string
				note := func(format string, args ...any) { did = append(did, fmt.Sprintf(format, args...)) }
				s := signals{
					hangup: func() { note("hangup") },
					first:  func(sig os.Signal) { note("first %v", sig) },
					exit:   func(code int) { note("exit %d", code) },
				}
				got := make(chan os.Signal)
				go func() {
					defer close(got)
					for _, sig := range tt.got {
						got <- sig
						time.Sleep(tt.apart)
					}
				}()
				if ending := s.watch(got, func() { note("cancel") }); ending != tt.ending {
					t.Errorf("ended by %v, want %v", ending, tt.ending)
				}
				if !slices.Equal(did, tt.want) {
					t.Errorf("did %q, want %q", did, tt.want)
				}
			})
		})
	}
}

func TestUntilSignalEndsWhenStopped(t *testing.T) {
	ctx, stop := untilSignal(t.Context(), signals{})
	if ctx.Err() != nil {
		t.Fatal("ended before anything happened")
	}
	if sig := stop(); sig != nil {
		t.Errorf("ended by %v", sig)
	}
	if ctx.Err() != context.Canceled {
		t.Error("the context lives on")
	}
}
