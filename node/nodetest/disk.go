package nodetest

import (
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Death is how a node ends without a chance to do anything about it.
type Death int

const (
	// ProcessDeath is that of kill -9: everything that was written is still there, and the peers of the
	// process are told by resets.
	ProcessDeath Death = iota + 1
	// PowerCut leaves only what was synced, and the peers hear nothing.
	PowerCut
	// TornPowerCut is a PowerCut after which some of the blocks and names that were not synced are there
	// all the same, chosen at random, and the same ones in each run.
	TornPowerCut
)

// String is the death's name in the output of tests.
func (d Death) String() string {
	return [...]string{"no death", "process death", "power cut", "torn power cut"}[d]
}

// keeps is the share of what was not synced that is there afterwards, in percent.
func (d Death) keeps() int { return [...]int{100, 100, 0, 50}[d] }

// DiskSize is how large a disk is until Resize.
const DiskSize = 256 << 20

// Disk is a node's disk. It outlives the processes that use it.
type Disk struct {
	mu   sync.Mutex // guards what follows, and the sizes of the files on fs
	fs   *diskFS
	size int64
	tap  func()
	// deaths counts them.
	deaths uint64
	// stuck keeps syncs from ending; moves wakes them.
	stuck bool
	moves sync.Cond
	// writes and syncs are what those fail with; nil: they do not.
	writes, syncs error
}

// NewDisk returns an empty disk.
func NewDisk() *Disk {
	d := &Disk{size: DiskSize}
	d.moves.L = &d.mu
	d.fs = &diskFS{MemFS: vfs.NewCrashableMem(), disk: d, files: make(map[string]*int64)}
	return d
}

// FS is the file system of the disk for a process that starts now.
func (d *Disk) FS() vfs.FS {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fs
}

// Resize makes the disk larger or smaller. One that is smaller than its content is full.
func (d *Disk) Resize(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.size = bytes
}

// Tap has f called before anything is written or synced, by the goroutine that does it. nil ends it.
func (d *Disk) Tap(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tap = f
}

// Stick keeps syncs from ending, as a disk does that is about to fail, until it is called with false.
// What is written meanwhile is not durable.
func (d *Disk) Stick(stuck bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stuck = stuck
	d.moves.Broadcast()
}

// Break makes writes and syncs fail with these errors, each unless it is nil. What fails has no effect.
func (d *Disk) Break(writes, syncs error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes, d.syncs = writes, syncs
}

// Used is how many bytes the files take.
func (d *Disk) Used() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fs.used
}

// crash replaces the file system by what a death leaves of it. Whoever has the old one open goes on
// with it, and nobody will see what he does.
func (d *Disk) crash(by Death) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deaths++
	cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: by.keeps(), RNG: rand.New(rand.NewPCG(uint64(d.fs.used), d.deaths))}
	left := &diskFS{MemFS: d.fs.CrashClone(cfg), disk: d, files: make(map[string]*int64)}
	left.weigh("/")
	d.fs = left
	d.moves.Broadcast()
}

// diskFS is the file system of a disk: in memory, and full when the disk is. The disk's lock guards
// files and used.
type diskFS struct {
	*vfs.MemFS
	disk  *Disk
	files map[string]*int64 // bytes by path
	used  int64
}

// weigh adds up what is on a file system.
func (f *diskFS) weigh(dir string) {
	names, err := f.List(dir)
	if err != nil {
		return // it is a file
	}
	for _, name := range names {
		path := f.PathJoin(dir, name)
		if info, err := f.Stat(path); err == nil && !info.IsDir() {
			size := info.Size()
			f.files[clean(path)] = &size
			f.used += size
			continue
		}
		f.weigh(path)
	}
}

// clean is a path without the slash that some callers begin with.
func clean(name string) string { return strings.TrimLeft(name, "/") }

// grow takes room for a file of a size, if there is so much.
func (f *diskFS) grow(size *int64, to int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.writes != nil {
		return f.disk.writes
	}
	more := to - *size
	if more <= 0 {
		return nil
	}
	if f.used+more > f.disk.size {
		return syscall.ENOSPC
	}
	*size, f.used = to, f.used+more
	return nil
}

// watch tells the tap that something is about to change on the file system, unless nobody will see it.
func (f *diskFS) watch() {
	f.disk.mu.Lock()
	tap, seen := f.disk.tap, f.disk.fs == f
	f.disk.mu.Unlock()
	if tap != nil && seen {
		tap()
	}
}

// settle waits for as long as the disk is stuck, and returns what a sync then fails with.
func (f *diskFS) settle() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	for f.disk.stuck && f.disk.fs == f {
		f.disk.moves.Wait()
	}
	return f.disk.syncs
}

// track puts a file of a size at a path, in place of the one there.
func (f *diskFS) track(name string, size *int64) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.lose(name)
	f.files[clean(name)] = size
	f.used += *size
}

// lose forgets the file at a path; the disk's lock is held.
func (f *diskFS) lose(name string) *int64 {
	size := f.files[clean(name)]
	if size == nil {
		return nil
	}
	delete(f.files, clean(name))
	f.used -= *size
	return size
}

func (f *diskFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.MemFS.Create(name, category)
	if err != nil {
		return nil, err
	}
	size := new(int64)
	f.track(name, size)
	return &diskFile{File: file, fs: f, size: size}, nil
}

func (f *diskFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.MemFS.OpenReadWrite(name, category, opts...)
	if err != nil {
		return nil, err
	}
	f.disk.mu.Lock()
	size := f.files[clean(name)]
	f.disk.mu.Unlock()
	if size == nil {
		size = new(int64)
		f.track(name, size)
	}
	return &diskFile{File: file, fs: f, size: size}, nil
}

func (f *diskFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.Rename(oldname, newname); err != nil {
		return nil, err
	}
	return f.OpenReadWrite(newname, category)
}

func (f *diskFS) Rename(oldname, newname string) error {
	if err := f.MemFS.Rename(oldname, newname); err != nil {
		return err
	}
	f.disk.mu.Lock()
	size := f.lose(oldname)
	f.disk.mu.Unlock()
	if size != nil {
		f.track(newname, size)
	}
	return nil
}

func (f *diskFS) Remove(name string) error {
	if err := f.MemFS.Remove(name); err != nil {
		return err
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.lose(name)
	return nil
}

// GetDiskUsage tells how full the disk is.
func (f *diskFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	total := uint64(f.disk.size)
	used := min(uint64(f.used), total)
	return vfs.DiskUsage{AvailBytes: total - used, TotalBytes: total, UsedBytes: used}, nil
}

// Unwrap implements vfs.FS.
func (f *diskFS) Unwrap() vfs.FS { return f.MemFS }

// diskFile is a file that was opened to be written. Its room counts also after its name is gone, as long
// as the file system knows no better.
type diskFile struct {
	vfs.File
	fs   *diskFS
	size *int64 // guarded by the disk's lock
	at   int64  // where the next Write goes; owned by the writer
}

func (f *diskFile) Write(p []byte) (int, error) {
	f.fs.watch()
	if err := f.fs.grow(f.size, f.at+int64(len(p))); err != nil {
		return 0, &os.PathError{Op: "write", Err: err}
	}
	n, err := f.File.Write(p)
	f.at += int64(n)
	return n, err
}

func (f *diskFile) WriteAt(p []byte, at int64) (int, error) {
	f.fs.watch()
	if err := f.fs.grow(f.size, at+int64(len(p))); err != nil {
		return 0, &os.PathError{Op: "write", Err: err}
	}
	return f.File.WriteAt(p, at)
}

func (f *diskFile) Sync() error {
	f.fs.watch()
	if err := f.fs.settle(); err != nil {
		return &os.PathError{Op: "sync", Err: err}
	}
	return f.File.Sync()
}

func (f *diskFile) SyncData() error {
	f.fs.watch()
	if err := f.fs.settle(); err != nil {
		return &os.PathError{Op: "sync", Err: err}
	}
	return f.File.SyncData()
}

// Preallocate takes room. What is in memory stays small.
func (f *diskFile) Preallocate(offset, length int64) error {
	if err := f.fs.grow(f.size, offset+length); err != nil {
		return &os.PathError{Op: "preallocate", Err: err}
	}
	return f.File.Preallocate(offset, length)
}
