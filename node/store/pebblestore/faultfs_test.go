package pebblestore_test

import (
	"path"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// faultFS is a disk of limited size whose writes and syncs can be made to fail. It counts what is
// allocated, as a disk does.
type faultFS struct {
	vfs.FS

	// mu guards all below.
	mu    sync.Mutex
	limit int64            // 0: no limit
	sizes map[string]int64 // allocated, by base name
	used  int64
	// fault and synced are asked before each write (op "write") and each sync (op "sync") of a file, and
	// told after each sync that went well.
	fault  func(op, name string) error
	synced func(name string)
}

func newFaultFS(under vfs.FS) *faultFS { return &faultFS{FS: under, sizes: map[string]int64{}} }

func (fs *faultFS) setFault(f func(op, name string) error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.fault = f
}

// resize sets how much is free.
func (fs *faultFS) resize(free int64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.limit = fs.used + free
}

func (fs *faultFS) ask(op, name string) error {
	fs.mu.Lock()
	f := fs.fault
	fs.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(op, name)
}

// grow allocates a file up to size, as far as there is room, and returns how far that is.
func (fs *faultFS) grow(name string, size int64) (int64, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	name = path.Base(name)
	more := size - fs.sizes[name]
	if more <= 0 {
		return size, nil
	}
	var err error
	if fs.limit > 0 && fs.used+more > fs.limit {
		more, err = max(0, fs.limit-fs.used), syscall.ENOSPC
	}
	fs.sizes[name] += more
	fs.used += more
	return fs.sizes[name], err
}

func (fs *faultFS) forget(name string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	name = path.Base(name)
	fs.used -= fs.sizes[name]
	delete(fs.sizes, name)
}

func (fs *faultFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	fs.forget(name)
	if _, err := fs.grow(name, 512); err != nil {
		fs.forget(name)
		return nil, err
	}
	f, err := fs.FS.Create(name, c)
	return fs.wrap(f, name, err)
}

func (fs *faultFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	fs.mu.Lock()
	from, to := path.Base(oldname), path.Base(newname)
	fs.sizes[to] = fs.sizes[from]
	delete(fs.sizes, from)
	fs.mu.Unlock()
	f, err := fs.FS.ReuseForWrite(oldname, newname, c)
	return fs.wrap(f, newname, err)
}

func (fs *faultFS) OpenDir(name string) (vfs.File, error) {
	f, err := fs.FS.OpenDir(name)
	return fs.wrap(f, name, err)
}

func (fs *faultFS) wrap(f vfs.File, name string, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &faultFile{File: f, fs: fs, name: name}, nil
}

func (fs *faultFS) Remove(name string) error {
	err := fs.FS.Remove(name)
	if err == nil {
		fs.forget(name)
	}
	return err
}

func (fs *faultFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.limit == 0 {
		return vfs.DiskUsage{}, vfs.ErrUnsupported
	}
	return vfs.DiskUsage{
		TotalBytes: uint64(fs.limit), UsedBytes: uint64(fs.used), AvailBytes: uint64(max(0, fs.limit-fs.used)),
	}, nil
}

type faultFile struct {
	vfs.File
	fs     *faultFS
	name   string
	offset int64
}

func (f *faultFile) Write(p []byte) (int, error) {
	if err := f.fs.ask("write", f.name); err != nil {
		return 0, err
	}
	end, full := f.fs.grow(f.name, f.offset+int64(len(p)))
	n, err := f.File.Write(p[:max(0, min(int64(len(p)), end-f.offset))])
	f.offset += int64(n)
	if err == nil {
		err = full
	}
	return n, err
}

func (f *faultFile) Preallocate(from, length int64) error {
	_, err := f.fs.grow(f.name, from+length)
	return err
}

func (f *faultFile) Sync() error { return f.sync(f.File.Sync) }

func (f *faultFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *faultFile) sync(op func() error) error {
	if err := f.fs.ask("sync", f.name); err != nil {
		return err
	}
	err := op()
	if err == nil && f.fs.synced != nil {
		f.fs.synced(f.name)
	}
	return err
}

func isLog(name string) bool { return strings.HasSuffix(name, ".log") }
