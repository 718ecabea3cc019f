package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// machine is where a run took place. Figures hold for one kind of machine, and only if nobody else
// was working on it: the load says so.
type machine struct {
	CPUs   int    `json:"cpus"`
	Go     string `json:"go"`
	System string `json:"system"`
	Load   string `json:"load_at_start"` // the three load averages
}

func thisMachine() machine {
	m := machine{CPUs: runtime.NumCPU(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Load: "unknown"}
	if raw, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load = strings.Join(strings.Fields(string(raw))[:3], " ")
	}
	return m
}

func (m machine) String() string {
	return fmt.Sprintf("%d CPUs, %s, %s, load %s", m.CPUs, m.System, m.Go, m.Load)
}
