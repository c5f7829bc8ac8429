package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// protocol is a version of HTTP that clients speak.
type protocol string

const (
	http1 protocol = "HTTP/1.1"
	http2 protocol = "HTTP/2.0"
)

// caller is the administrator, over one protocol. It keeps no connection
// when the test is over.
type caller struct {
	t    testing.TB
	base string
	http *http.Client
	wire protocol
}

// connections closes what it dialed: a server that drains waits a second for a
// client of HTTP/2 that is still there.
type connections struct {
	// mu guards open.
	mu   sync.Mutex
	open []net.Conn
}

func (c *connections) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(c.open, conn)
	return conn, nil
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		_ = conn.Close() // most are closed already
	}
}

// reply is a whole answer.
type reply struct {
	code   int
	header http.Header
	body   []byte
}

// send makes a request; headers are "Name: value". The caller closes the body.
func (c *caller) send(ctx context.Context, method, path, body string, headers ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if got := protocol(resp.Proto); got != c.wire {
		return nil, errors.Join(fmt.Errorf("%s was answered by %s", c.wire, got), resp.Body.Close())
	}
	return resp, nil
}

// try makes a request and reads the whole answer.
func (c *caller) try(ctx context.Context, method, path, body string, headers ...string) (reply, error) {
	resp, err := c.send(ctx, method, path, body, headers...)
	if err != nil {
		return reply{}, err
	}
	whole, err := io.ReadAll(resp.Body)
	return reply{code: resp.StatusCode, header: resp.Header, body: whole}, errors.Join(err, resp.Body.Close())
}

// do is try for the test's own goroutine.
func (c *caller) do(method, path, body string, headers ...string) reply {
	c.t.Helper()
	r, err := c.try(c.t.Context(), method, path, body, headers...)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

// must is do for a request that has to be answered with code.
func (c *caller) must(code int, method, path, body string, headers ...string) tree {
	c.t.Helper()
	r := c.do(method, path, body, headers...)
	if r.code != code {
		c.t.Fatalf("%s %s gives %d, want %d: %s", method, path, r.code, code, r.body)
	}
	return r.tree(c.t)
}

// tree is decoded JSON.
type tree map[string]any

func (r reply) decode() (tree, error) {
	var x tree
	if err := json.Unmarshal(r.body, &x); err != nil {
		return nil, fmt.Errorf("answer %d is not JSON: %w: %.300q", r.code, err, r.body)
	}
	return x, nil
}

// tree is decode for the test's own goroutine.
func (r reply) tree(t testing.TB) tree {
	t.Helper()
	x, err := r.decode()
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	return x
}

// at returns what is at a path of names and indices, nil if there is nothing.
func (x tree) at(path ...string) any {
	var here any = map[string]any(x)
	for _, name := range path {
		switch v := here.(type) {
		case map[string]any:
			here = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(v) {
				return nil
			}
			here = v[i]
		default:
			return nil
		}
	}
	return here
}

// text is at for a string.
func (x tree) text(path ...string) string {
	s, _ := x.at(path...).(string)
	return s
}

func (x tree) rv() string { return x.text("metadata", "resourceVersion") }

// keys are the items of a list as "namespace/name", in their order.
func (x tree) keys() string {
	var keys []string
	items, _ := x.at("items").([]any)
	for _, item := range items {
		o, _ := item.(map[string]any)
		keys = append(keys, tree(o).key())
	}
	return strings.Join(keys, " ")
}

func (x tree) key() string {
	return strings.TrimPrefix(x.text("metadata", "namespace")+"/"+x.text("metadata", "name"), "/")
}

// number is a resourceVersion as a number.
func number(t testing.TB, rv string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(rv, 10, 64)
	if err != nil {
		t.Fatalf("resourceVersion %q: %v", rv, err)
	}
	return n
}

const configMaps = "/api/v1/namespaces/default/configmaps"

func configMapBody(name, x string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"labels":{"x":%q}},"data":{"x":%q}}`,
		name, x, x)
}

// create creates a ConfigMap with label and data x.
func (c *caller) create(namespace, name, x string) tree {
	c.t.Helper()
	return c.must(http.StatusCreated, http.MethodPost, "/api/v1/namespaces/"+namespace+"/configmaps", configMapBody(name, x))
}

// relabel replaces it.
func (c *caller) relabel(namespace, name, x string) tree {
	c.t.Helper()
	return c.must(http.StatusOK, http.MethodPut, "/api/v1/namespaces/"+namespace+"/configmaps/"+name, configMapBody(name, x))
}

func (c *caller) remove(namespace, name string) {
	c.t.Helper()
	c.must(http.StatusOK, http.MethodDelete, "/api/v1/namespaces/"+namespace+"/configmaps/"+name, "")
}

func (c *caller) namespace(name string) {
	c.t.Helper()
	c.must(http.StatusCreated, http.MethodPost, "/api/v1/namespaces",
		fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name))
}

// current is the resourceVersion of a consistent list.
func (c *caller) current() string {
	c.t.Helper()
	return c.must(http.StatusOK, http.MethodGet, configMaps, "").rv()
}
