package admit

import (
	"bytes"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// MachineMemory returns how many bytes this process may use: the smallest limit of its control groups,
// of version 1 or 2, and of the machine; 0 if it cannot be read, as on systems other than Linux.
// root is the root of the file system, os.DirFS("/") for the real one.
func MachineMemory(root fs.FS) int64 {
	var limit int64
	take := func(bytes int64, ok bool) {
		if ok && (limit == 0 || bytes < limit) {
			limit = bytes
		}
	}
	if info, err := fs.ReadFile(root, "proc/meminfo"); err == nil {
		take(memTotal(info))
	}
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return limit
	}
	for _, name := range limitFiles(groups) {
		// Most of them do not exist: each system has some of the places.
		if value, err := fs.ReadFile(root, name); err == nil {
			take(groupLimit(value))
		}
	}
	return limit
}

// AutoMemory is the automatic memory limit for a machine with so many bytes: 70 %. The rest is for
// what the Go runtime does not count, and for the bursts between two readings.
func AutoMemory(machine int64) int64 { return machine / 10 * 7 }

// memTotal reads the memory of the machine from /proc/meminfo (proc_meminfo(5)).
func memTotal(info []byte) (bytes int64, ok bool) {
	for line := range strings.Lines(string(info)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "MemTotal:" && fields[2] == "kB" {
			kB, err := strconv.ParseInt(fields[1], 10, 64)
			return kB << 10, err == nil && kB > 0 && kB < 1<<50
		}
	}
	return 0, false
}

// limitFiles returns where the memory limits may stand that hold for the groups of /proc/self/cgroup
// (cgroups(7)), as paths of an fs.FS: in each group itself and in all above it. Inside a container
// the group that the file names may be out of sight; its limit then stands at the root.
func limitFiles(groups []byte) []string {
	var files []string
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		var mounts []string
		file := "memory.max"
		switch {
		case parts[0] == "0" && parts[1] == "":
			mounts = []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"}
		case slices.Contains(strings.Split(parts[1], ","), "memory"):
			mounts = []string{"sys/fs/cgroup/memory"}
			file = "memory.limit_in_bytes"
		}
		for _, mount := range mounts {
			for group := path.Clean("/" + parts[2]); ; group = path.Dir(group) {
				if name := path.Join(mount, group, file); fs.ValidPath(name) {
					files = append(files, name)
				}
				if group == "/" {
					break
				}
			}
		}
	}
	return files
}

// unlimited is more than any machine has; version 1 writes such a number where there is no limit.
const unlimited = 1 << 60

// groupLimit reads the content of a limit file.
func groupLimit(value []byte) (limit int64, ok bool) {
	limit, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64) // "max" is no limit either
	return limit, err == nil && limit > 0 && limit < unlimited
}
