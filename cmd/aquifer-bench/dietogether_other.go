//go:build !linux

package main

import "syscall"

func dieTogether() *syscall.SysProcAttr { return nil }
