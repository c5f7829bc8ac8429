package client

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gapless-io/gapless/kube"
)

// sizeOf is how long the length is that precedes each frame, a big-endian number
// (apimachinery pkg/util/framer).
const sizeOf = 4

// protobufFrames reads a watch in Kubernetes' protobuf encoding: metav1.WatchEvent
// messages without envelope, each behind its length, around objects in envelopes
// (apimachinery pkg/runtime/serializer: StreamSerializer).
type protobufFrames struct {
	in    *bufio.Reader
	lends bool
	lent  int    // bytes of in that the last frame was lent from
	large []byte // a frame that in has no room for
	at    int    // where in the stream in begins
}

func newProtobufFrames(body io.Reader) *protobufFrames {
	return &protobufFrames{in: bufio.NewReaderSize(body, 64<<10)} // one read for a burst of events
}

func (p *protobufFrames) lend() { p.lends = true }

// blame: the buffer hands an error of the connection on as it is.
func (p *protobufFrames) blame(err error) error { return err }

func (p *protobufFrames) wrong(at int, why string) error {
	return fmt.Errorf("%w: %w", ErrProtobuf, &kube.DecodeError{Offset: at, Why: why})
}

func (p *protobufFrames) ready() bool {
	behind := p.in.Buffered() - p.lent - sizeOf
	if behind < 0 {
		return false
	}
	head, err := p.in.Peek(p.lent + sizeOf)
	return err == nil && behind >= int(binary.BigEndian.Uint32(head[p.lent:]))
}

func (p *protobufFrames) next() (Frame, error) {
	p.discard(p.lent)
	p.lent = 0
	head, err := p.in.Peek(sizeOf)
	if err != nil {
		if len(head) == 0 {
			return Frame{}, err // io.EOF between frames
		}
		return Frame{}, whole(err)
	}
	size := int(binary.BigEndian.Uint32(head))
	if size > maxValue {
		return Frame{}, p.wrong(p.at, fmt.Sprintf("a frame of %d bytes", size))
	}
	begin := p.at + sizeOf
	message, err := p.read(size)
	if err != nil {
		return Frame{}, whole(err)
	}
	f, err := protobufFrame(message, begin)
	if !p.lends {
		f.Object = bytes.Clone(f.Object)
	}
	return f, err
}

// read returns the frame that comes. It is valid until what it was lent from is
// discarded.
func (p *protobufFrames) read(size int) ([]byte, error) {
	if sizeOf+size <= p.in.Size() {
		message, err := p.in.Peek(sizeOf + size)
		if err != nil {
			return nil, err
		}
		p.lent = len(message)
		return message[sizeOf:], nil
	}
	p.discard(sizeOf)
	p.large = p.large[:0]
	for rest := size; rest > 0; { // no memory for what does not come
		step := min(rest, 1<<20)
		p.large = slices.Grow(p.large, step)
		n, err := io.ReadFull(p.in, p.large[len(p.large):len(p.large)+step])
		p.at += n
		if err != nil {
			return nil, err
		}
		p.large, rest = p.large[:len(p.large)+step], rest-step
	}
	return p.large, nil
}

func (p *protobufFrames) discard(n int) {
	n, _ = p.in.Discard(n) // it was peeked at
	p.at += n
}

// protobufFrame reads a metav1.WatchEvent that begins at an offset.
func protobufFrame(message []byte, at int) (Frame, error) {
	var name, object []byte
	err := scan(message, at, func(f field) error {
		switch f.number {
		case eventType:
			name = f.value
		case eventObject:
			return scan(f.value, f.at, func(f field) error {
				if f.number == rawRaw {
					object = f.value
				}
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return Frame{}, distrusted(err)
	}
	kind, err := typed(string(name), object)
	if err != nil {
		return Frame{}, err
	}
	if kind == 0 || len(object) == 0 {
		text, err := jsontext.AppendQuote(nil, printable(name[:min(len(name), 64)]))
		return Frame{Object: fmt.Appendf(nil, `{"type":%s,"bytes":%d}`, text, len(object))}, err
	}
	return Frame{Type: kind, Object: object}, nil
}
