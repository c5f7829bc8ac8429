package load

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gapless-io/gapless/bench/internal/wire"
)

// List is how a collection is read.
type List struct {
	Path    string
	Version string // resourceVersion; empty reads the newest state
	Limit   int    // of a page; 0 is the whole
	Gzip    bool
	Stream  bool   // as a watch that begins with the state, instead of a LIST
	Accept  string // media type of the answer; empty is application/json
}

// Reader lists over one connection.
type Reader struct {
	Conn wire.Conn
	List List
}

// Read reads the whole collection, lets the bytes go, and returns how many came
// over the wire. With gzip it fails if they were not compressed.
func (r *Reader) Read() (int64, error) {
	if r.List.Stream {
		return r.stream()
	}
	var total int64
	token := ""
	for {
		page := &edges{}
		resp, err := r.Conn.Do(wire.Request{Path: r.path(token), Accept: r.List.Accept, Gzip: r.List.Gzip}, page)
		total += resp.Bytes
		if err != nil {
			return total, err
		}
		if resp.Gzip != r.List.Gzip {
			return total, fmt.Errorf("asked for gzip: %t, got it: %t", r.List.Gzip, resp.Gzip)
		}
		if r.List.Limit == 0 {
			return total, nil
		}
		if token = page.token(); token == "" {
			return total, nil
		}
	}
}

func (r *Reader) path(token string) string {
	var pairs []string
	if r.List.Limit > 0 {
		pairs = append(pairs, "limit", strconv.Itoa(r.List.Limit))
	}
	if token != "" {
		pairs = append(pairs, "continue", token)
	} else if r.List.Version != "" {
		pairs = append(pairs, "resourceVersion", r.List.Version)
	}
	return Query(r.List.Path, pairs...)
}

// stream reads the initial events of a watch, as client-go does first.
func (r *Reader) stream() (int64, error) {
	f := NewFollower(0, 1, -1)
	f.Initial = true
	resp, err := r.Conn.Do(wire.Request{Path: r.streamPath()}, f)
	return resp.Bytes, err
}

func (r *Reader) streamPath() string {
	return Query(r.List.Path, "watch", "true", "sendInitialEvents", "true", "resourceVersionMatch", "NotOlderThan",
		"allowWatchBookmarks", "true", "timeoutSeconds", "600")
}

// Verify reads the collection as Read does, but unpacks and parses all of it: every
// object must be there once, whole. It returns how many there are.
func (r *Reader) Verify() (int, error) {
	seen := map[string]bool{}
	if r.List.Stream {
		f := NewFollower(0, 1, -1)
		f.Initial = true
		if _, err := r.Conn.Do(wire.Request{Path: r.streamPath()}, f); err != nil {
			return 0, err
		}
		return int(f.Events()), nil
	}
	token := ""
	for {
		var raw bytes.Buffer
		resp, err := r.Conn.Do(wire.Request{Path: r.path(token), Gzip: r.List.Gzip}, &raw)
		if err != nil {
			return 0, err
		}
		body := raw.Bytes()
		if resp.Gzip {
			unpacked, err := gzip.NewReader(&raw)
			if err != nil {
				return 0, fmt.Errorf("gzip: %w", err)
			}
			if body, err = io.ReadAll(unpacked); err != nil {
				return 0, fmt.Errorf("gzip: %w", err)
			}
		}
		if token, err = note(body, seen); err != nil || token == "" {
			return len(seen), err
		}
	}
}

// note checks a page and notes what is in it.
func note(body []byte, seen map[string]bool) (string, error) {
	var page struct {
		Metadata struct {
			Continue string `json:"continue"`
		} `json:"metadata"`
		Items []struct {
			Metadata struct {
				Namespace, Name, UID, ResourceVersion string
			} `json:"metadata"`
			Spec struct{ Payload, Stamp string } `json:"spec"`
			Data map[string]string               `json:"data"` // of a ConfigMap, in the place of spec
		} `json:"items"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return "", fmt.Errorf("list: %w", err)
	}
	for _, item := range page.Items {
		m, key := item.Metadata, item.Metadata.Namespace+"/"+item.Metadata.Name
		if seen[key] {
			return "", fmt.Errorf("%s is listed twice", key)
		}
		stamp, ok := parseStamp([]byte(cmp.Or(item.Spec.Stamp, item.Data["stamp"])))
		text := payload(stamp.Key, stamp.Seq)
		whole := item.Spec.Payload == text || strings.Contains(item.Data["config.yaml"], text[:mapPayload])
		if m.UID == "" || m.ResourceVersion == "" || !ok || !whole {
			return "", fmt.Errorf("%s is not whole: %+v", key, item)
		}
		seen[key] = true
	}
	return page.Metadata.Continue, nil
}

// edges keeps the beginning and the end of a body, one of which holds the list's
// own metadata.
type edges struct{ head, tail []byte }

const edgeBytes = 1 << 10

func (e *edges) Write(p []byte) (int, error) {
	if room := edgeBytes - len(e.head); room > 0 {
		e.head = append(e.head, p[:min(room, len(p))]...)
	}
	if len(p) >= edgeBytes {
		e.tail = append(e.tail[:0], p[len(p)-edgeBytes:]...)
		return len(p), nil
	}
	e.tail = append(e.tail, p...)
	if extra := len(e.tail) - edgeBytes; extra > 0 {
		e.tail = append(e.tail[:0], e.tail[extra:]...)
	}
	return len(p), nil
}

// token returns the continue token of the page.
func (e *edges) token() string {
	for _, edge := range [][]byte{e.head, e.tail} {
		if _, rest, ok := bytes.Cut(edge, []byte(`"continue":"`)); ok {
			value, _, _ := bytes.Cut(rest, []byte(`"`))
			return string(value)
		}
	}
	return ""
}

// Current returns the resourceVersion of the collection's newest state.
func Current(conn wire.Conn) (string, error) {
	var body refilled
	if _, err := conn.Do(wire.Request{Path: Query(Everyone, "limit", "1")}, &body); err != nil {
		return "", fmt.Errorf("read the current resourceVersion: %w", err)
	}
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return "", fmt.Errorf("read the current resourceVersion: %w", err)
	}
	return list.Metadata.ResourceVersion, nil
}
