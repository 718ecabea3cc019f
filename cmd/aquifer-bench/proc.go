package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// usage is what a process has used, from /proc.
type usage struct {
	CPU     time.Duration // user and system, since its start
	RSS     int64         // bytes, now
	PeakRSS int64         // bytes, since its start
	Files   int           // open file descriptors
}

// tick is the unit of CPU time in /proc: USER_HZ, which is 100 on every architecture of Linux.
const tick = 10 * time.Millisecond

func usageOf(pid int) (usage, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return usage{}, err
	}
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return usage{}, err
	}
	files, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return usage{}, err
	}
	u := usage{Files: len(files)}
	if u.CPU, err = parseCPU(stat); err != nil {
		return usage{}, err
	}
	if u.RSS, err = parseKB(status, "VmRSS"); err != nil {
		return usage{}, err
	}
	u.PeakRSS, err = parseKB(status, "VmHWM")
	return u, err
}

// parseCPU reads the user and system time of a /proc stat line (proc_pid_stat(5), fields 14 and 15).
func parseCPU(stat []byte) (time.Duration, error) {
	// The second field is the program's name in parentheses and may hold anything.
	_, rest, found := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 13 {
		return 0, fmt.Errorf("stat line is too short: %q", stat)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("user time: %w", err)
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("system time: %w", err)
	}
	return time.Duration(user+system) * tick, nil
}

// waitedOf is how long the threads of a process have been ready to run without a core to run on, together
// and since their start; 0 where the kernel does not tell.
func waitedOf(pid int) (time.Duration, error) {
	tasks, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "schedstat"))
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, name := range tasks {
		raw, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) { // the thread has ended
			continue
		}
		if err != nil {
			return 0, err
		}
		waited, err := parseWaited(raw)
		if err != nil {
			return 0, err
		}
		sum += waited
	}
	return sum, nil
}

// parseWaited reads the second field of a schedstat line (Documentation/scheduler/sched-stats.rst of
// Linux), in ns.
func parseWaited(line []byte) (time.Duration, error) {
	fields := strings.Fields(string(line))
	if len(fields) != 3 {
		return 0, fmt.Errorf("schedstat line has not three fields: %q", line)
	}
	ns, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("time without a core: %w", err)
	}
	return time.Duration(ns), nil
}

// parseKB reads one line of a /proc status file, in bytes.
func parseKB(status []byte, name string) (int64, error) {
	lines := bufio.NewScanner(bytes.NewReader(status))
	for lines.Scan() {
		value, found := strings.CutPrefix(lines.Text(), name+":")
		if !found {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		return n * 1024, nil
	}
	return 0, fmt.Errorf("status has no %s", name)
}

// sizeOf is the size of all files below dir, in bytes. Files that vanish meanwhile do not count.
func sizeOf(dir string) (int64, error) {
	var total int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				total += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return total, err
}
