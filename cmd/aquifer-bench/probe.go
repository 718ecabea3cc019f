package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

func (d *dispatcher) ready(ctx context.Context) bool {
	status, _, err := fetch(ctx, "http://"+d.addr+"/ready")
	return err == nil && status == http.StatusOK
}

// goroutines asks the dispatcher how many goroutines it has; 0 if it does not tell.
func (d *dispatcher) goroutines(ctx context.Context) int {
	if _, body, err := fetch(ctx, "http://"+d.addr+"/metrics"); err == nil {
		if n, ok := gauge(body, "go_goroutines"); ok {
			return int(n)
		}
	}
	if d.debug == "" {
		return 0
	}
	_, body, err := fetch(ctx, "http://"+d.debug+"/debug/pprof/goroutine?debug=1")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(body, "\n")
	n, err := strconv.Atoi(strings.TrimPrefix(first, "goroutine profile: total "))
	if err != nil {
		return 0
	}
	return n
}

// gauge reads one sample without labels from the Prometheus text format.
func gauge(text, name string) (float64, bool) {
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), name+" "); found {
			n, err := strconv.ParseFloat(value, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// fetchTimeout bounds a question to a node, which may be busy.
const fetchTimeout = 5 * time.Second

// fetch is for what is asked now and then; the hot path has connections of its own.
func fetch(ctx context.Context, url string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	t := &http.Transport{DisableKeepAlives: true}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	return resp.StatusCode, string(raw), err
}
