package pebblestore_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/pebblestore"
)

// refusing is a file system that lets nothing be made.
type refusing struct {
	vfs.FS
	err error
}

func (r refusing) MkdirAll(dir string, _ os.FileMode) error {
	return &os.PathError{Op: "mkdir", Path: dir, Err: r.err}
}

func (r refusing) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, &os.PathError{Op: "open", Path: name, Err: r.err}
}

func (r refusing) Lock(name string) (io.Closer, error) {
	return nil, &os.PathError{Op: "open", Path: name, Err: r.err}
}

// TestRefusedDirectories: what a directory cannot be used for, and what to do, stands in the error.
func TestRefusedDirectories(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		o    pebblestore.Options
		is   error
		want string
	}{
		"a file":         {pebblestore.Options{Dir: file}, syscall.ENOTDIR, "is a file: move that away"},
		"in a file":      {pebblestore.Options{Dir: filepath.Join(file, "store")}, syscall.ENOTDIR, "is a file: move that away"},
		"not allowed":    {pebblestore.Options{Dir: t.TempDir(), FS: refusing{vfs.Default, syscall.EACCES}}, fs.ErrPermission, "must own it"},
		"cannot be made": {pebblestore.Options{Dir: filepath.Join(t.TempDir(), "a/b"), FS: refusing{vfs.Default, syscall.EACCES}}, fs.ErrPermission, "must own it"},
		"read-only":      {pebblestore.Options{Dir: t.TempDir(), FS: refusing{vfs.Default, syscall.EROFS}}, syscall.EROFS, "is read-only"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pebblestore.Open(t.Context(), test.o)
			if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "open store in "+test.o.Dir+": ") {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// TestOpenElsewhere refuses a directory that somebody has open, and takes nothing away from them.
func TestOpenElsewhere(t *testing.T) {
	o := pebblestore.Options{Dir: t.TempDir(), FlushInterval: time.Second}
	s, err := pebblestore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	before := list(t, o.Dir)
	_, err = pebblestore.Open(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "it is open elsewhere: stop the process that has it") {
		t.Errorf("in this process: %v", err)
	}
	if after := list(t, o.Dir); after != before {
		t.Errorf("the directory had %s, now %s", before, after)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// TestNewerPebble refuses formats of Pebble that are newer than what this program writes.
func TestNewerPebble(t *testing.T) {
	for _, version := range []string{"022", "999"} {
		mem := vfs.NewMem()
		s := openMem(t, pebblestore.Options{FS: mem})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		marker(t, mem, version)
		_, err := pebblestore.Open(t.Context(), pebblestore.Options{Dir: "data", FS: mem})
		if !errors.Is(err, store.ErrVersion) {
			t.Errorf("format %s: %v", version, err)
		}
	}
}

// marker makes the store say that it has another format.
func marker(t *testing.T, mem vfs.FS, version string) {
	t.Helper()
	names, err := mem.List("data")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "marker.format-version.") {
			next := name[:strings.LastIndex(name, ".")+1] + version
			if err := mem.Rename("data/"+name, "data/"+next); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestDirectoryRemoved: a store whose directory is taken away takes no more jobs and says why.
func TestDirectoryRemoved(t *testing.T) {
	o := pebblestore.Options{Dir: filepath.Join(t.TempDir(), "store"), FlushInterval: time.Second}
	s, err := pebblestore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Insert(t.Context(), benchJob(1), store.Default); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(o.Dir); err != nil {
		t.Fatal(err)
	}
	s.Usage() // as admission asks before it lets a job in
	_, err = s.Insert(t.Context(), benchJob(2), store.Default)
	if !errors.Is(err, store.ErrFailed) {
		t.Errorf("insert: %v", err)
	}
	<-s.Failed()
	want := o.Dir + " was removed or replaced while it was in use"
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("close: %v, want %q", err, want)
	}
}
