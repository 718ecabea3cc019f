package nodetest

import (
	"errors"
	"io"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func put(t *testing.T, fs vfs.FS, name, text string, sync bool) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if sync {
		dir, err := fs.OpenDir("/")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Sync(), dir.Sync(), dir.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, fs vfs.FS, name string) string {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		return "none"
	}
	b, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestDiskAfterDeath(t *testing.T) {
	for _, by := range []Death{ProcessDeath, PowerCut} {
		t.Run(by.String(), func(t *testing.T) {
			d := NewDisk()
			before := d.FS()
			put(t, before, "/synced", "kept", true)
			put(t, before, "/written", "gone?", false)
			d.crash(by)
			put(t, before, "/afterwards", "unseen", true)

			want, used := "gone?", int64(9)
			if by == PowerCut {
				want, used = "none", 4
			}
			after := d.FS()
			if got := content(t, after, "/synced"); got != "kept" {
				t.Errorf("what was synced is %q", got)
			}
			if got := content(t, after, "/written"); got != want {
				t.Errorf("what was written is %q, want %q", got, want)
			}
			if got := content(t, after, "/afterwards"); got != "none" {
				t.Errorf("what was done afterwards is %q", got)
			}
			if got := d.Used(); got != used {
				t.Errorf("%d bytes used, want %d", got, used)
			}
		})
	}
}

func TestDiskIsFull(t *testing.T) {
	d := NewDisk()
	fs := d.FS()
	put(t, fs, "/a", "0123456789", true)
	d.Resize(15)
	f, err := fs.Create("/b", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("012345")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write beyond the end: %v", err)
	}
	if _, err := f.Write([]byte("01234")); err != nil {
		t.Errorf("write up to the end: %v", err)
	}
	if use, _ := fs.GetDiskUsage("/"); use.AvailBytes != 0 || use.TotalBytes != 15 {
		t.Errorf("usage %+v", use)
	}
	if err := fs.Remove("/a"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Preallocate(0, 14), f.Close()); err != nil || d.Used() != 14 {
		t.Errorf("preallocate: %v, %d bytes used", err, d.Used())
	}
	if err := fs.Rename("/b", "/a"); err != nil || d.Used() != 14 {
		t.Errorf("rename: %v, %d bytes used", err, d.Used())
	}
	again, err := fs.ReuseForWrite("/a", "/c", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Write([]byte("0123456789")); err != nil || d.Used() != 14 {
		t.Errorf("overwrite: %v, %d bytes used", err, d.Used())
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
