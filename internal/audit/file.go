package audit

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// clock measures the write that is in progress. It is safe for concurrent use.
type clock struct {
	made  time.Time
	began atomic.Int64 // after made; 0: none is in progress
}

func (c *clock) start() { c.began.Store(max(1, int64(time.Since(c.made)))) }

func (c *clock) stop() { c.began.Store(0) }

func (c *clock) waits() time.Duration {
	began := c.began.Load()
	if began == 0 {
		return 0
	}
	return time.Since(c.made) - time.Duration(began)
}

// plain is a sink that is not a file: standard output.
type plain struct {
	clock

	mu  sync.Mutex
	out io.Writer
}

func (p *plain) write(line []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start()
	defer p.stop()
	_, err := p.out.Write(line)
	return err
}

func (*plain) run(ctx context.Context) { <-ctx.Done() }

func (*plain) close() error { return nil }

// stamp is in the names of rotated files, as in those of upstream's: audit.log becomes
// audit-2026-11-23T15-04-05.000.log.
const stamp = "2006-01-02T15-04-05.000"

// gz ends the names of compressed files.
const gz = ".gz"

// file is a sink that is rotated by size. It is not synced, as upstream's: what is written
// survives the process, and not the machine.
type file struct {
	clock

	path     string
	most     int64 // bytes; 0: it is not rotated
	backups  int   // 0: any number
	age      time.Duration
	compress bool
	logger   *slog.Logger
	rotated  chan struct{} // has one element when a file was rotated

	// mu guards what follows.
	mu      sync.Mutex
	out     *os.File // nil: the last rotation could not create it, or it is closed
	opened  os.FileInfo
	size    int64
	torn    bool // the last line is not complete
	stalled bool // nobody has read the last line in time
	shut    bool
}

// How long a pipe may take for a line, and after one that it has not taken: requests wait, one
// after the other.
const (
	patience        = time.Second
	patienceStalled = 10 * time.Millisecond
)

func openFile(path string, o Options) (*file, error) {
	f := &file{
		clock: clock{made: time.Now()},
		path:  path, most: int64(max(o.MaxSizeMB, 0)) << 20, backups: max(o.MaxBackups, 0),
		age: time.Duration(max(o.MaxAgeDays, 0)) * 24 * time.Hour, compress: o.Compress,
		logger: o.Logger, rotated: make(chan struct{}, 1),
	}
	f.rotated <- struct{}{} // look at what earlier runs have left
	if err := f.openLocked(); err != nil {
		return nil, fmt.Errorf("audit log %s (--audit-log-path): %w", path, err)
	}
	return f, nil
}

// openLocked opens the file, or creates it for its owner alone: bodies of requests may be
// secrets.
func (f *file) openLocked() error {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	info, err := out.Stat()
	if err != nil {
		return errors.Join(err, out.Close())
	}
	f.out, f.opened, f.size, f.torn, f.stalled = out, info, info.Size(), false, false
	if f.size > 0 && info.Mode().IsRegular() { // a process that was killed may have left half a line
		last := make([]byte, 1)
		_, err := out.ReadAt(last, f.size-1)
		f.torn = err == nil && last[0] != '\n'
	}
	return nil
}

// write appends a line. What a full disk has taken of it is removed again.
func (f *file) write(line []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.start()
	defer f.stop()
	if f.shut {
		return os.ErrClosed
	}
	f.lookLocked()
	if f.out != nil && f.most > 0 && f.size > 0 && f.size+int64(len(line)) > f.most {
		if err := f.rotateLocked(); err != nil && f.out == nil {
			return err
		}
	}
	if f.out == nil {
		if err := f.openLocked(); err != nil {
			return err
		}
	}
	if f.torn {
		line = append([]byte{'\n'}, line...)
	}
	if !f.opened.Mode().IsRegular() {
		wait := patience
		if f.stalled {
			wait = patienceStalled
		}
		_ = f.out.SetWriteDeadline(time.Now().Add(wait)) // what has no deadlines has no reader to wait for
	}
	n, err := f.out.Write(line)
	f.stalled = errors.Is(err, os.ErrDeadlineExceeded)
	if err == nil {
		f.size += int64(n)
		f.torn = false
		return nil
	}
	if n > 0 && f.out.Truncate(f.size) != nil {
		f.size += int64(n)
		f.torn = true
	}
	return err
}

// lookLocked closes the file when it is not that of its path any more: others delete, move or
// truncate it. What was written to a deleted one would be lost.
func (f *file) lookLocked() {
	if f.out == nil {
		return
	}
	there, err := os.Stat(f.path)
	switch {
	case err == nil && os.SameFile(there, f.opened):
		f.size = there.Size()
	case err == nil, errors.Is(err, os.ErrNotExist):
		f.logger.Warn("the audit log was moved or deleted, and is opened again", slog.String("path", f.path))
		_ = f.out.Close() // what was written to it is not ours any more
		f.out = nil
	}
}

// rotateLocked renames the file and begins a new one. When it cannot be renamed, it goes on.
func (f *file) rotateLocked() error {
	extension := filepath.Ext(f.path)
	name := strings.TrimSuffix(f.path, extension)
	var to string
	for at := time.Now(); ; at = at.Add(time.Millisecond) { // never over another one
		to = name + "-" + at.Format(stamp) + extension
		if _, err := os.Lstat(to); errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	if err := os.Rename(f.path, to); err != nil {
		return err
	}
	err := f.out.Close()
	f.out = nil
	select {
	case f.rotated <- struct{}{}:
	default:
	}
	return errors.Join(err, f.openLocked())
}

func (f *file) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shut = true
	if f.out == nil {
		return nil
	}
	err := f.out.Close()
	f.out = nil
	return err
}

// run removes rotated files that are too many or too old, and compresses the others. Age is
// looked at with each rotation and once an hour.
func (f *file) run(ctx context.Context) {
	hourly := time.NewTicker(time.Hour)
	defer hourly.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.rotated:
		case <-hourly.C:
		}
		if err := f.tend(time.Now()); err != nil {
			f.logger.WarnContext(ctx, "rotated audit logs are not looked after", slog.String("path", f.path),
				slog.Any("error", err))
		}
	}
}

// tend removes and compresses rotated files.
func (f *file) tend(now time.Time) error {
	all, err := f.backupsThere()
	if err != nil {
		return err
	}
	var failed []error
	for i, b := range all { // the newest first
		switch {
		case f.backups > 0 && i >= f.backups, f.age > 0 && now.Sub(b.at) > f.age:
			failed = append(failed, os.Remove(b.path))
		case f.compress && !strings.HasSuffix(b.path, gz):
			failed = append(failed, compress(b.path))
		}
	}
	return errors.Join(failed...)
}

type backup struct {
	path string
	at   time.Time
}

// backupsThere returns the rotated files, the newest first.
func (f *file) backupsThere() ([]backup, error) {
	entries, err := os.ReadDir(filepath.Dir(f.path))
	if err != nil {
		return nil, err
	}
	extension := filepath.Ext(f.path)
	prefix := strings.TrimSuffix(filepath.Base(f.path), extension) + "-"
	var all []backup
	for _, e := range entries {
		middle, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), gz), prefix)
		if !ok || !strings.HasSuffix(middle, extension) {
			continue
		}
		at, err := time.ParseInLocation(stamp, strings.TrimSuffix(middle, extension), time.Local)
		if err == nil {
			all = append(all, backup{filepath.Join(filepath.Dir(f.path), e.Name()), at})
		}
	}
	slices.SortFunc(all, func(a, b backup) int { return b.at.Compare(a.at) })
	return all, nil
}

// compress replaces a file by a compressed one.
func compress(path string) (err error) {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it is only read
	part := path + gz + ".part"       // not a rotated file's name: half a file is not one
	out, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	zip := gzip.NewWriter(out)
	_, err = io.Copy(zip, in)
	if err = errors.Join(err, zip.Close(), out.Close()); err == nil {
		err = os.Rename(part, path+gz)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return os.Remove(path)
}
