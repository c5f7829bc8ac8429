package persist

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"runtime"

	"github.com/klauspost/compress/zstd"

	"github.com/gapless-io/gapless/informer/internal/handle"
)

// Load reads the objects of the file's state. It holds a few frames in memory at a time.
// Call it when Holds is true and before the first batch. An error means that the file
// cannot be used, or that ctx ended.
func Load[T handle.Object](ctx context.Context, f *File, c Codec[T]) (map[handle.Key]T, error) {
	workers := 1
	if c.Lends {
		workers = runtime.GOMAXPROCS(0)
	}
	decompress, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(workers),
		zstd.WithDecoderMaxMemory(maxRaw), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, err
	}
	defer decompress.Close()
	l := loader[T]{codec: c, decompress: decompress, workers: workers, objects: make(map[handle.Key]T, f.state.Objects)}
	if err := l.read(ctx, f); err != nil {
		return nil, fmt.Errorf("load the snapshot file of %s: %w", f.id.Name, err)
	}
	return l.objects, nil
}

// loader decodes several frames at a time and applies them in their order.
type loader[T handle.Object] struct {
	codec      Codec[T]
	decompress *zstd.Decoder
	workers    int
	objects    map[handle.Key]T
	open       []*task[T] // oldest first
	free       []*task[T]
}

// task is one frame of records and the objects decoded from it.
type task[T handle.Object] struct {
	frame   frame
	payload []byte
	raw     []byte
	out     []loaded[T]
	err     error
	done    chan struct{} // one send per frame, by its worker
}

// loaded is one record; the object is the zero value for a deletion.
type loaded[T handle.Object] struct {
	key    handle.Key
	object T
}

func (l *loader[T]) read(ctx context.Context, f *File) (err error) {
	defer func() {
		for len(l.open) > 0 { // wait for all workers
			if taken := l.take(); err == nil {
				err = taken
			}
		}
		if want := f.state.Objects; err == nil && len(l.objects) != want {
			err = damaged("it has %d objects, its commit says %d", len(l.objects), want)
		}
	}()
	in := bufio.NewReaderSize(io.NewSectionReader(f.handle, f.begin, f.end-f.begin), scanBytes)
	chain := f.origin
	for at := f.begin; at < f.end; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		w, crc, err := readFrameHead(in, chain, f.end-at)
		if err != nil {
			return err
		}
		p := l.task()
		p.frame = w.frame
		p.payload = sized(p.payload, w.bytes)
		if _, err := io.ReadFull(in, p.payload); err != nil {
			return damaged("a frame: %v", err)
		}
		if err := w.check(checksum(crc, p.payload)); err != nil {
			return err
		}
		at, chain = at+int64(frameBytes+w.bytes), w.crc
		if w.kind == commit {
			l.free = append(l.free, p)
			continue
		}
		// take receives from done, whose buffer is large enough for one frame.
		go func() {
			p.err = l.work(p)
			p.done <- struct{}{}
		}()
		if l.open = append(l.open, p); len(l.open) >= l.workers {
			if err := l.take(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *loader[T]) task() *task[T] {
	if n := len(l.free); n > 0 {
		p := l.free[n-1]
		l.free = l.free[:n-1]
		return p
	}
	return &task[T]{done: make(chan struct{}, 1)}
}

func sized(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// work decodes the records of a frame.
func (l *loader[T]) work(p *task[T]) error {
	p.out = p.out[:0]
	r := reader{b: p.payload}
	if p.frame.kind == compressed {
		raw, err := l.decompress.DecodeAll(p.payload, sized(p.raw, p.frame.raw)[:0])
		if err != nil {
			return damaged("a frame of %d bytes: %v", p.frame.bytes, err)
		}
		if len(raw) != p.frame.raw {
			return damaged("a frame of %d bytes, not %d", len(raw), p.frame.raw)
		}
		p.raw, r.b = raw, raw
	}
	for len(r.b) > 0 {
		key, raw, err := r.record()
		if err != nil {
			return err
		}
		one := loaded[T]{key: key}
		if raw != nil {
			if one.object, err = l.codec.Decode(raw); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			var none T
			if one.object == none || handle.KeyOf(one.object) != key {
				return fmt.Errorf("%w: %s decodes to another object", ErrLossy, key)
			}
			one.key = handle.KeyOf(one.object) // shares the object's strings
		}
		p.out = append(p.out, one)
	}
	if len(p.out) != p.frame.records {
		return damaged("a frame of %d records, not %d", len(p.out), p.frame.records)
	}
	return nil
}

// take waits for the oldest frame and applies its records.
func (l *loader[T]) take() error {
	p := l.open[0]
	l.open = l.open[1:]
	<-p.done
	if p.err != nil {
		return p.err
	}
	var none T
	for _, one := range p.out {
		if one.object == none {
			delete(l.objects, one.key)
		} else {
			l.objects[one.key] = one.object
		}
	}
	clear(p.out)
	if !l.codec.Lends { // Decode may keep them
		p.payload, p.raw = nil, nil
	}
	l.free = append(l.free, p)
	return nil
}
