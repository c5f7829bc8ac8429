package wire

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
)

// sequential is an HTTP/1.1 connection.
type sequential struct {
	conn *tls.Conn
	in   *bufio.Reader
	out  []byte
	tail []byte // the headers that every request has
	done bool   // the connection cannot carry another request
}

// readBytes is the largest TLS record: more cannot arrive at once.
const readBytes = 16 << 10

func newSequential(conn *tls.Conn, t Target) *sequential {
	c := &sequential{conn: conn, in: bufio.NewReaderSize(conn, readBytes)}
	c.tail = fmt.Appendf(nil, " HTTP/1.1\r\nHost: %s\r\n", t.Address)
	if t.Token != "" {
		c.tail = fmt.Appendf(c.tail, "Authorization: Bearer %s\r\n", t.Token)
	}
	return c
}

func (c *sequential) Close() {
	// Not conn.Close: it waits up to 5 s to say goodbye to a peer that may not read.
	_ = c.conn.NetConn().Close() // it is given up
}

func (c *sequential) Broken() bool { return c.done }

func (c *sequential) Do(r Request, body io.Writer) (Response, error) {
	if c.done {
		return Response{}, net.ErrClosed
	}
	if err := c.send(r); err != nil {
		c.done = true
		return Response{}, err
	}
	var resp Response
	h, err := c.header()
	if err != nil {
		c.done = true
		return resp, fmt.Errorf("read header: %w", err)
	}
	resp.Status, resp.Gzip = h.status, h.gzip
	var refused *refusal
	if h.status/100 != 2 {
		refused = &refusal{}
		body = refused
	} else if r.Opened != nil {
		r.Opened()
	}
	resp.Bytes, err = c.body(h, body)
	if err != nil || h.closes {
		c.done = true
		c.Close() // nothing more can be read from it
	}
	if errors.Is(err, ErrStop) {
		err = nil
	}
	if err == nil && refused != nil {
		err = &StatusError{Status: h.status, Body: refused.body}
	}
	return resp, err
}

// send writes the request in one piece.
func (c *sequential) send(r Request) error {
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	c.out = append(append(append(append(c.out[:0], method...), ' '), r.Path...), c.tail...)
	c.out = append(append(append(c.out, "Accept: "...), r.accept()...), "\r\n"...)
	if r.Gzip {
		c.out = append(c.out, "Accept-Encoding: gzip\r\n"...)
	}
	if r.Body != nil {
		kind := r.Type
		if kind == "" {
			kind = "application/json"
		}
		c.out = append(append(append(c.out, "Content-Type: "...), kind...), "\r\nContent-Length: "...)
		c.out = append(strconv.AppendInt(c.out, int64(len(r.Body)), 10), "\r\n"...)
	}
	c.out = append(append(c.out, "\r\n"...), r.Body...)
	if _, err := c.conn.Write(c.out); err != nil {
		return fmt.Errorf("write request: %w", err)
	}
	return nil
}

// header is what matters of an answer's header.
type header struct {
	status  int
	length  int64 // -1: chunked
	gzip    bool
	closes  bool
	chunked bool
}

func (c *sequential) header() (header, error) {
	h := header{length: -1}
	line, err := c.line()
	if err != nil {
		return h, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return h, fmt.Errorf("status line %q", line)
	}
	if h.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return h, fmt.Errorf("status line %q: %w", line, err)
	}
	for {
		line, err := c.line()
		if err != nil {
			return h, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case is(name, "Content-Length"):
			if h.length, err = strconv.ParseInt(string(value), 10, 64); err != nil {
				return h, fmt.Errorf("content length: %w", err)
			}
		case is(name, "Transfer-Encoding"):
			h.chunked = is(value, "chunked")
		case is(name, "Content-Encoding"):
			h.gzip = is(value, "gzip")
		case is(name, "Connection"):
			h.closes = is(value, "close")
		}
	}
	if !h.chunked && h.length < 0 && h.status != http.StatusNoContent {
		return h, errors.New("the answer has neither length nor chunks")
	}
	return h, nil
}

func is(b []byte, name string) bool { return bytes.EqualFold(b, []byte(name)) }

// line returns the next line without its end. It is valid until the next read.
func (c *sequential) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return bytes.TrimRight(line, "\r\n"), err
}

func (c *sequential) body(h header, w io.Writer) (int64, error) {
	if !h.chunked {
		return c.copy(w, max(h.length, 0))
	}
	var total int64
	for {
		line, err := c.line()
		if err != nil {
			return total, err
		}
		size, err := strconv.ParseInt(string(line), 16, 64)
		if err != nil {
			return total, fmt.Errorf("chunk size: %w", err)
		}
		n, err := c.copy(w, size)
		total += n
		if err != nil {
			return total, err
		}
		end, err := c.line() // after a chunk's data, and after the last chunk, which has none
		if err != nil {
			return total, err
		}
		if len(end) != 0 {
			return total, fmt.Errorf("after a chunk came %q", end)
		}
		if size == 0 {
			return total, nil
		}
	}
}

// copy hands n bytes to w without copying them.
func (c *sequential) copy(w io.Writer, n int64) (int64, error) {
	left := n
	for left > 0 {
		if _, err := c.in.Peek(1); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return n - left, err
		}
		piece, err := c.in.Peek(int(min(left, int64(c.in.Buffered()))))
		if err != nil {
			return n - left, err
		}
		if _, err := w.Write(piece); err != nil {
			return n - left, err
		}
		if _, err := c.in.Discard(len(piece)); err != nil {
			return n - left, err
		}
		left -= int64(len(piece))
	}
	return n, nil
}
