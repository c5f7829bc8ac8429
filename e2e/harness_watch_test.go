package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// stream is one watch.
type stream struct {
	t     testing.TB
	body  io.Closer
	lines *bufio.Reader
}

// frame is one line of a watch.
type frame struct {
	kind   string
	object tree
}

// String is "ADDED default/a@17", "BOOKMARK@17", "END@17" for the bookmark after
// the initial events, or "ERROR 410 Expired".
func (f frame) String() string {
	switch {
	case f.kind == "ERROR":
		return fmt.Sprintf("ERROR %v %s", f.object.at("code"), f.object.text("reason"))
	case f.kind != "BOOKMARK":
		return f.kind + " " + f.object.key() + "@" + f.object.rv()
	case f.object.text("metadata", "annotations", "k8s.io/initial-events-end") == "true":
		return "END@" + f.object.rv()
	}
	return "BOOKMARK@" + f.object.rv()
}

func words(frames []frame) string {
	var words []string
	for _, f := range frames {
		words = append(words, f.String())
	}
	return strings.Join(words, ", ")
}

// watch opens a watch, which must be answered with 200; path has its query.
func (c *caller) watch(path string, headers ...string) *stream {
	c.t.Helper()
	s, err := c.follow(c.t.Context(), path, headers...)
	if err != nil {
		c.t.Fatalf("watch %s: %v", path, err)
	}
	s.t = c.t
	c.t.Cleanup(s.close)
	return s
}

func (c *caller) follow(ctx context.Context, path string, headers ...string) (*stream, error) {
	resp, err := c.send(ctx, http.MethodGet, path, "", headers...)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" {
		body, _ := io.ReadAll(resp.Body)
		return nil, errors.Join(fmt.Errorf("status %d, type %s: %s", resp.StatusCode, resp.Header.Get("Content-Type"), body),
			resp.Body.Close())
	}
	return &stream{body: resp.Body, lines: bufio.NewReader(resp.Body)}, nil
}

func (s *stream) close() { _ = s.body.Close() } // the rest of the stream is of no interest

// read returns the next frame; io.EOF at the clean end.
func (s *stream) read() (frame, error) {
	line, err := s.lines.ReadBytes('\n')
	if err != nil {
		if len(line) > 0 {
			return frame{}, fmt.Errorf("half a frame %q: %w", line, err)
		}
		return frame{}, err
	}
	var f struct {
		Type   string
		Object tree
	}
	if err := json.Unmarshal(line, &f); err != nil {
		return frame{}, fmt.Errorf("frame %q: %w", line, err)
	}
	return frame{kind: f.Type, object: f.Object}, nil
}

func (s *stream) next() frame {
	s.t.Helper()
	f, err := s.read()
	if err != nil {
		s.t.Fatalf("next frame: %v", err)
	}
	return f
}

// take returns the next n frames in words.
func (s *stream) take(n int) string {
	s.t.Helper()
	var frames []frame
	for range n {
		frames = append(frames, s.next())
	}
	return words(frames)
}

// rest returns all frames up to the clean end.
func (s *stream) rest() ([]frame, error) {
	var frames []frame
	for {
		f, err := s.read()
		switch {
		case err == io.EOF: //nolint:errorlint // io.ErrUnexpectedEOF is no clean end
			return frames, nil
		case err != nil:
			return frames, fmt.Errorf("after %d frames: %w", len(frames), err)
		}
		frames = append(frames, f)
	}
}

// end requires the clean end of the stream after these frames.
func (s *stream) end(want string) {
	s.t.Helper()
	frames, err := s.rest()
	if err != nil {
		s.t.Fatalf("read the rest: %v", err)
	}
	if got := words(frames); got != want {
		s.t.Errorf("the stream ends with %q, want %q", got, want)
	}
}
