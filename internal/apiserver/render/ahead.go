package render

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/gapless-io/gapless/internal/wire"
)

// rowWriter writes the rows of a list block by block, in order. Heads are most of what a table costs the first time, since
// objects are decoded for their cells: those of some blocks are made on other processors meanwhile. The rows of a small list
// are made by the caller alone.
type rowWriter struct {
	r     *Renderer
	write func([]byte)
	ahead []*rowBlock // begun and not written, in order
	comma bool        // a row was written
}

// rowBlock is a block of rows. What follows done is read once that is closed.
type rowBlock struct {
	objects []*wire.Object
	done    chan struct{}
	heads   []byte
	err     error
	panics  string
}

// add begins a block of objects, which belong to the writer then, and writes the first one if there are as many as processors.
func (w *rowWriter) add(objects []*wire.Object) error {
	b := &rowBlock{objects: objects, done: make(chan struct{})}
	w.ahead = append(w.ahead, b)
	go b.run(w.r)
	if len(w.ahead) < runtime.GOMAXPROCS(0) {
		return nil
	}
	return w.next()
}

// run makes the heads of a block. What panics does so where the request is handled, which survives that.
func (b *rowBlock) run(r *Renderer) {
	defer close(b.done)
	defer func() {
		if why := recover(); why != nil {
			b.panics = fmt.Sprintf("make rows: %v\n%s", why, debug.Stack())
		}
	}()
	b.heads, b.err = r.heads(b.objects)
}

// next writes the first block that is ahead.
func (w *rowWriter) next() error {
	b := w.ahead[0]
	<-b.done
	w.ahead[0] = nil
	w.ahead = w.ahead[1:]
	if b.panics != "" {
		panic(b.panics)
	}
	if b.err != nil {
		return b.err
	}
	w.rows(b.objects, b.heads)
	return nil
}

// end writes the blocks that are ahead, and then the last one.
func (w *rowWriter) end(last []*wire.Object) error {
	for len(w.ahead) > 0 {
		if err := w.next(); err != nil {
			return err
		}
	}
	heads, err := w.r.heads(last)
	if err != nil {
		return err
	}
	w.rows(last, heads)
	return nil
}

// wait returns when nothing is made any more, also after an error.
func (w *rowWriter) wait() {
	for _, b := range w.ahead {
		<-b.done
	}
}

func (w *rowWriter) rows(objects []*wire.Object, heads []byte) {
	for _, o := range objects {
		if w.comma {
			w.write([]byte{','})
		}
		w.comma = true
		length, n := binary.Uvarint(heads)
		heads = heads[n:]
		w.r.writeRow(o, heads[:length], w.write)
		heads = heads[length:]
	}
}
