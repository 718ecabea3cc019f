package main

import (
	"errors"
	"fmt"
	"time"
)

// workload is what is submitted in one run.
type workload struct {
	C       int           `short:"c" help:"Closed loop: jobs in the system at a time, from submission to webhook." default:"64"`
	Rate    float64       `help:"Open loop: jobs per second by a schedule, instead of the closed loop."`
	Conns   int           `help:"Connections of the open loop." default:"64"`
	Jobs    int           `help:"Jobs that are measured per run." default:"40000"`
	Warmup  int           `help:"Jobs before them." default:"2000"`
	Body    int           `help:"Bytes of a job's body." default:"256"`
	Tenants int           `help:"Tenants that take turns." default:"64"`
	Stall   time.Duration `help:"How long nothing may happen before a run is given up." default:"15s"`
}

// Validate is called by the command line.
func (w workload) Validate() error {
	for _, n := range []int{w.C, w.Conns, w.Jobs, w.Tenants} {
		if n < 1 {
			return errors.New("--c, --conns, --jobs and --tenants must be at least 1")
		}
	}
	if w.Warmup < 0 || w.Body < 0 || w.Rate < 0 || w.Stall <= 0 {
		return errors.New("--warmup, --body and --rate must not be negative, --stall must be positive")
	}
	return nil
}

func (w workload) String() string {
	loop := fmt.Sprintf("closed loop of %d", w.C)
	if w.Rate > 0 {
		loop = fmt.Sprintf("open loop at %g/s", w.Rate)
	}
	return fmt.Sprintf("%s, %d jobs of %d bytes from %d tenants", loop, w.Jobs, w.Body, w.Tenants)
}
