package commandline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/cmd/commandline"
)

type commands struct {
	Greet greet `cmd:"" help:"Greet somebody."`
}

type greet struct {
	Name string `arg:"" help:"Who is greeted."`
}

func (c *greet) Run(ctx context.Context, s commandline.Streams, log *slog.Logger) error {
	if c.Name == "nobody" {
		return errors.New("there is nobody")
	}
	log.Info("greeting")
	fmt.Fprintf(s.Out, "hello %s of %v\n", c.Name, ctx.Value(home{}))
	return nil
}

type home struct{}

func TestExecute(t *testing.T) {
	ctx := context.WithValue(t.Context(), home{}, "Oz")
	for _, tt := range []struct {
		args      string
		code      int
		out, errs string
	}{
		{"greet Dorothy", 0, "hello Dorothy of Oz\n", "msg=greeting\n"},
		{"greet nobody", commandline.Failed, "", "test: there is nobody\n"},
		{"greet", commandline.Usage, "", "test: expected \"<name>\"\n"},
		{"", commandline.Usage, "", "test: expected \"greet\"\n"},
		{"shout", commandline.Usage, "", "test: unexpected argument shout\n"},
		{"--help", 0, "A test.", ""},
		{"greet --help", 0, "Who is greeted.", ""},
	} {
		var out, errs bytes.Buffer
		p := commandline.Program{Name: "test", Description: "A test.", Commands: new(commands)}
		code := p.Execute(ctx, strings.Fields(tt.args), commandline.Streams{Out: &out, Err: &errs})
		if code != tt.code || !strings.Contains(out.String(), tt.out) || !strings.HasSuffix(errs.String(), tt.errs) {
			t.Errorf("%q: exit code %d, wrote %q and %q", tt.args, code, &out, &errs)
		}
	}
}

func TestCommandsThatKongCannotRead(t *testing.T) {
	var errs bytes.Buffer
	p := commandline.Program{Name: "test", Commands: commands{}} // no pointer
	if code := p.Execute(t.Context(), nil, commandline.Streams{Err: &errs}); code != commandline.Usage || errs.Len() == 0 {
		t.Errorf("exit code %d, wrote %q", code, &errs)
	}
}
