package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// jsonFrames reads a watch in JSON: one value behind the other.
type jsonFrames struct {
	in    *bufio.Reader
	limit *valueReader
	dec   *jsontext.Decoder

	lends  bool
	object []byte // what was lent
}

func newJSONFrames(body io.Reader) *jsonFrames {
	j := &jsonFrames{limit: &valueReader{r: body, left: maxValue}}
	j.in = bufio.NewReaderSize(j.limit, 64<<10) // one read for a burst of events
	j.dec = jsontext.NewDecoder(j.in, lenient())
	return j
}

func (j *jsonFrames) lend() { j.lends = true }

// keep copies a value that the decoder is about to overwrite.
func (j *jsonFrames) keep(value []byte) []byte {
	if !j.lends {
		return bytes.Clone(value)
	}
	j.object = append(j.object[:0], value...)
	return j.object
}

func (j *jsonFrames) ready() bool {
	rest := bytes.TrimLeft(j.dec.UnreadBuffer(), " \t\r\n")
	if bytes.IndexByte(rest, '\n') >= 0 {
		return true
	}
	buffered, err := j.in.Peek(j.in.Buffered())
	if err != nil {
		return false
	}
	if len(rest) == 0 {
		buffered = bytes.TrimLeft(buffered, " \t\r\n")
	}
	return bytes.IndexByte(buffered, '\n') >= 0
}

func (j *jsonFrames) next() (Frame, error) {
	j.limit.left = maxValue
	kind := j.dec.PeekKind()
	if kind != '{' {
		value, err := j.dec.ReadValue() // io.EOF between frames
		if err != nil {
			return Frame{}, err
		}
		return Frame{Object: bytes.Clone(value)}, nil
	}
	if _, err := j.dec.ReadToken(); err != nil {
		return Frame{}, err
	}
	var event, object []byte
	var short [16]byte
	for j.dec.PeekKind() == '"' {
		name, err := j.dec.ReadToken()
		if err != nil {
			return Frame{}, whole(err)
		}
		member := name.String()
		value, err := j.dec.ReadValue()
		if err != nil {
			return Frame{}, whole(err)
		}
		switch member {
		case "type":
			event = append(short[:0], value...)
		case "object":
			object = j.keep(value)
		}
	}
	if _, err := j.dec.ReadToken(); err != nil {
		return Frame{}, whole(err)
	}
	return jsonFrame(event, object)
}

// jsonFrame says what an event is. event is JSON text.
func jsonFrame(event, object []byte) (Frame, error) {
	kind, err := typed(strings.Trim(string(event), `"`), object)
	if err != nil {
		return Frame{}, err
	}
	if kind == 0 || len(object) == 0 {
		return Frame{Object: fmt.Appendf(nil, `{"type":%s,"object":%s}`, orNull(event), orNull(object))}, nil
	}
	return Frame{Type: kind, Object: object}, nil
}

func orNull(value []byte) []byte {
	if len(value) == 0 {
		return []byte("null")
	}
	return value
}

// blame: an ERROR frame is the server's word and stands, also if the connection
// broke behind it.
func (j *jsonFrames) blame(err error) error {
	if _, is := errors.AsType[*apierrors.StatusError](err); is {
		return err
	}
	return j.limit.blame(err)
}
