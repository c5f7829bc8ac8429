package client

import (
	"bufio"
	"compress/gzip"
	"errors"
	"io"
)

// members reads concatenated gzip members, each one as soon as it is there. A
// gzip.Reader in its usual mode wants to see the header of the next member before
// it hands out the last bytes of this one; in a watch, one member is one event,
// which would wait for its successor.
type members struct {
	in   *bufio.Reader
	zip  *gzip.Reader // nil before the first member
	open bool         // within a member
}

func newMembers(r io.Reader) *members { return &members{in: bufio.NewReader(r)} }

func (m *members) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if !m.open {
			if err := m.begin(); err != nil {
				return 0, err
			}
		}
		n, err := m.zip.Read(p)
		if errors.Is(err, io.EOF) {
			m.open = false
			err = nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// begin waits for the next member; the end of input between two is io.EOF.
func (m *members) begin() error {
	if _, err := m.in.Peek(1); err != nil {
		return err
	}
	var err error
	if m.zip == nil {
		m.zip, err = gzip.NewReader(m.in)
	} else {
		err = m.zip.Reset(m.in)
	}
	if err != nil {
		return whole(err)
	}
	m.zip.Multistream(false)
	m.open = true
	return nil
}
