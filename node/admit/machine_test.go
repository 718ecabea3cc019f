package admit

import (
	"io/fs"
	"testing"
	"testing/fstest"
)

func TestMachineMemory(t *testing.T) {
	const meminfo = "MemTotal:        4194304 kB\nMemFree:          100 kB\n" // 4 GiB
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"not Linux": {nil, 0},
		"no groups": {map[string]string{"proc/meminfo": meminfo}, 4 << 30},
		"version 2, in a container": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n",
		}, 512 << 20},
		"version 2, limit of a parent": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/system.slice/aquifer.service\n",
			"sys/fs/cgroup/system.slice/memory.max":                 "1073741824\n",
			"sys/fs/cgroup/system.slice/aquifer.service/memory.max": "max\n",
		}, 1 << 30},
		"version 2, no limit": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n",
		}, 4 << 30},
		"version 1, in a container": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/docker/abc\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n",
		}, 256 << 20},
		"version 1, on the host": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "4:cpu,memory:/a/b\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":     "9223372036854771712\n",
			"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "268435456\n",
		}, 256 << 20},
		"version 1, no limit": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 4 << 30},
		"both versions": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "4:memory:/a\n0::/b\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "3000000000\n",
			"sys/fs/cgroup/unified/b/memory.max":           "2000000000\n",
		}, 2000000000},
		"a limit above the machine": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "99999999999\n",
		}, 4 << 30},
		"a group outside of the container": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/../../other\n", "sys/fs/cgroup/memory.max": "536870912\n",
		}, 512 << 20},
		"garbage": {map[string]string{
			"proc/meminfo": "MemTotal: lots\n", "proc/self/cgroup": "nothing\n::\n0::/\n", "sys/fs/cgroup/memory.max": "-5\n",
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{}
			for file, content := range c.files {
				root[file] = &fstest.MapFile{Data: []byte(content)}
			}
			if got := MachineMemory(root); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestAutoMemory(t *testing.T) {
	if got := AutoMemory(1000 * MB); got != 700*MB {
		t.Errorf("got %d MB of 1000", got/MB)
	}
	if got := AutoMemory(0); got != 0 {
		t.Errorf("got %d of what cannot be read", got)
	}
}

func FuzzLimitFiles(f *testing.F) {
	for _, s := range []string{"0::/\n", "4:memory:/a/b\n0::/c\n", "1:name=systemd:/x", "0::/../..\n", "0::relative\n", ":::", "0::/a\x00b\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, groups []byte) {
		for _, name := range limitFiles(groups) {
			if !fs.ValidPath(name) {
				t.Errorf("%q is no path of an fs.FS", name)
			}
			if name[:len("sys/fs/cgroup/")] != "sys/fs/cgroup/" {
				t.Errorf("%q is not where groups are", name)
			}
		}
	})
}

func FuzzGroupLimit(f *testing.F) {
	for _, s := range []string{"max\n", "536870912\n", "9223372036854771712", "-1", "0", "", " 5 ", "1e9", "99999999999999999999"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if n, ok := groupLimit(value); ok && (n <= 0 || n >= unlimited) {
			t.Errorf("%q is a limit of %d", value, n)
		}
	})
}

func FuzzMemTotal(f *testing.F) {
	for _, s := range []string{"MemTotal: 24683520 kB\n", "MemTotal: 5", "MemTotal: -1 kB", "MemTotal: 9223372036854775807 kB", "X: 1 kB\nMemTotal:\t1 kB"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, info []byte) {
		if n, ok := memTotal(info); ok && (n <= 0 || n >= unlimited) {
			t.Errorf("%q is a machine of %d bytes", info, n)
		}
	})
}
