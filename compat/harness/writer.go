package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// names is the number of objects of a writer.
const names = 40

// version is a version of an object, from the response to a write.
type version struct{ key, rv string }

// writer creates, changes and deletes the objects of one collection, not through the
// proxy. It repeats requests without a response, as during restarts.
type writer struct {
	web    *http.Client
	url    string // of the collection
	object func(name string, n int) map[string]any
	random *rand.Rand

	live  map[string]bool
	n     int
	acked []version
}

type meta struct {
	Metadata struct {
		Name            string `json:"name"`
		Namespace       string `json:"namespace"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
}

func (m meta) key() string { return m.Metadata.Namespace + "/" + m.Metadata.Name }

// work makes so many writes, with a pause between them.
func (w *writer) work(ctx context.Context, writes int, pause time.Duration) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for range writes {
		if err := w.write(ctx); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (w *writer) write(ctx context.Context) error {
	w.n++
	name := fmt.Sprintf("object-%02d", w.random.IntN(names))
	body := w.object(name, w.n)
	switch {
	case !w.live[name]:
		return w.create(ctx, name, body)
	case w.random.IntN(8) == 0:
		status, _, err := w.do(ctx, http.MethodDelete, w.url+"/"+name, "", nil)
		if err != nil || status != http.StatusOK && status != http.StatusNotFound {
			return fmt.Errorf("delete %s: %d, %w", name, status, err)
		}
		w.live[name] = false
		return nil
	}
	delete(body, "metadata")
	return w.note(w.do(ctx, http.MethodPatch, w.url+"/"+name, "application/merge-patch+json", body))
}

func (w *writer) create(ctx context.Context, name string, body map[string]any) error {
	status, answer, err := w.do(ctx, http.MethodPost, w.url, "application/json", body)
	if status == http.StatusConflict {
		// An earlier try had succeeded without a response.
		status, answer, err = w.do(ctx, http.MethodGet, w.url+"/"+name, "", nil)
	}
	w.live[name] = true
	return w.note(status, answer, err)
}

// note records the version that a write made.
func (w *writer) note(status int, answer []byte, err error) error {
	if err != nil {
		return err
	}
	var m meta
	if err := json.Unmarshal(answer, &m); err != nil || status/100 != 2 || m.Metadata.ResourceVersion == "" {
		return fmt.Errorf("the server answered %d %s", status, answer)
	}
	w.acked = append(w.acked, version{m.key(), m.Metadata.ResourceVersion})
	return nil
}

// list returns the server's state.
func (w *writer) list(ctx context.Context) (map[string]string, error) {
	status, answer, err := w.do(ctx, http.MethodGet, w.url, "", nil)
	if err != nil {
		return nil, err
	}
	var list struct{ Items []meta }
	if err := json.Unmarshal(answer, &list); err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("list: %d %s", status, answer)
	}
	state := map[string]string{}
	for _, m := range list.Items {
		state[m.key()] = m.Metadata.ResourceVersion
	}
	return state, nil
}

// restored forgets what was written before a restore, and looks up which objects the server has.
func (w *writer) restored(ctx context.Context) error {
	state, err := w.list(ctx)
	if err != nil {
		return err
	}
	w.live, w.acked = map[string]bool{}, nil
	for key := range state {
		w.live[key[strings.LastIndex(key, "/")+1:]] = true
	}
	return nil
}

// newest returns the highest resourceVersion that it has seen since the last restore.
func (w *writer) newest(t testing.TB) string {
	t.Helper()
	newest, at := uint64(0), "0"
	for _, v := range w.acked {
		n, err := strconv.ParseUint(v.rv, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if n > newest {
			newest, at = n, v.rv
		}
	}
	return at
}

// do sends a request until it gets a response, for at most a minute: the server may be
// restarting. It repeats the request after 429, 503 and 504.
func (w *writer) do(ctx context.Context, method, url, contentType string, body any) (int, []byte, error) {
	var encoded []byte
	if body != nil {
		var err error
		if encoded, err = json.Marshal(body); err != nil {
			return 0, nil, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("no answer for a minute"))
	defer cancel()
	for {
		status, answer, err := w.once(ctx, method, url, contentType, encoded)
		if err == nil && status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable &&
			status != http.StatusGatewayTimeout {
			return status, answer, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return status, answer, fmt.Errorf("%s %s: %w: %w", method, url, context.Cause(ctx), err)
		}
	}
}

func (w *writer) once(ctx context.Context, method, url, contentType string, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Accept", "application/json")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := w.web.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}
