package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/internal/backup"
)

// TestABackupOfAServerThatIsKilledIsNotWhole kills the server while its client reads.
func TestABackupOfAServerThatIsKilledIsNotWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process")
	}
	t.Parallel()
	p := startProcessOn(t, filepath.Join(t.TempDir(), "data"), "--bootstrap", "server")
	c := p.caller(t, http1)
	for n := range 40 { // more than the sockets hold
		c.create("default", fmt.Sprint("o", n), strings.Repeat("x", 60)) // a label
		c.must(http.StatusOK, http.MethodPatch, configMaps+"/"+fmt.Sprint("o", n),
			`{"data":{"large":"`+strings.Repeat("y", 900_000)+`"}}`, "Content-Type: application/merge-patch+json")
	}
	resp, err := c.send(t.Context(), http.MethodPost, "/gapless/v1/backup", "{}")
	if err != nil {
		t.Fatalf("take a backup: %v", err)
	}
	defer func() { _ = resp.Body.Close() }() // it is cut off
	kill := killing{from: resp.Body, after: 64 << 10, kill: p.kill}
	_, err = backup.Verify(t.Context(), &kill, nil)
	if _, is := errors.AsType[*backup.DamagedError](err); !is && err == nil {
		t.Error("the backup of a server that was killed looks whole")
	}
	if !kill.done {
		t.Error("the backup had ended before the server was killed")
	}
}

// killing is a reader that kills a server after some bytes.
type killing struct {
	from  io.Reader
	after int
	kill  func()
	done  bool
}

func (k *killing) Read(b []byte) (int, error) {
	if k.after <= 0 && !k.done {
		k.done = true
		k.kill()
	}
	n, err := k.from.Read(b)
	k.after -= n
	return n, err
}

// TestPermissionToReadEveryPathIsNotPermissionToBackUp: a backup has all Secrets.
func TestPermissionToReadEveryPathIsNotPermissionToBackUp(t *testing.T) {
	t.Parallel()
	l, as := launchWithUsers(t, gapless.Config{})
	admin := l.caller(t, http2)
	const rules = "/apis/rbac.authorization.k8s.io/v1/"
	grant := func(name, verb string) {
		t.Helper()
		admin.must(http.StatusCreated, http.MethodPost, rules+"clusterroles", fmt.Sprintf(
			`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q},`+
				`"rules":[{"nonResourceURLs":["*"],"verbs":[%q]}]}`, name, verb))
		admin.must(http.StatusCreated, http.MethodPost, rules+"clusterrolebindings", fmt.Sprintf(
			`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":%q},`+
				`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":%q},`+
				`"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%q}]}`, name, name, name))
	}
	grant("reader", "get")
	grant("keeper", "post")
	for name, want := range map[string]int{
		"nobody": http.StatusForbidden, "reader": http.StatusForbidden, "keeper": http.StatusOK,
	} {
		c := as(name)
		until(t, name+" has his permissions", 30*time.Second, func() bool {
			return c.do(http.MethodPost, "/gapless/v1/backup", "{}").code == want
		})
	}
	if got := as("reader").do(http.MethodGet, "/gapless/v1/backup", ""); got.code == http.StatusOK {
		t.Errorf("GET: %d", got.code)
	}
}

// TestWritesGoOnWhileABackupIsNotRead, and it is whole when it is read at last.
func TestWritesGoOnWhileABackupIsNotRead(t *testing.T) {
	t.Parallel()
	l := launch(t, gapless.Config{})
	c := l.caller(t, http1)
	for n := range 12 {
		c.create("default", fmt.Sprint("o", n), "1")
		c.must(http.StatusOK, http.MethodPatch, configMaps+"/"+fmt.Sprint("o", n),
			`{"data":{"large":"`+strings.Repeat("y", 900_000)+`"}}`, "Content-Type: application/merge-patch+json")
	}
	before := number(t, c.current())
	resp, err := c.send(context.WithoutCancel(t.Context()), http.MethodPost, "/gapless/v1/backup", "{}")
	if err != nil {
		t.Fatalf("take a backup: %v", err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	for n := range 12 {
		c.relabel("default", fmt.Sprint("o", n), "2")
	}
	c.must(http.StatusOK, http.MethodPost, "/gapless/v1/compact", `{"olderThan":"1ns"}`)
	done, err := backup.Verify(t.Context(), resp.Body, nil)
	if err != nil || done.Header.Revision < before || done.Summary.Resources["configmaps"] < 12 {
		t.Errorf("the backup is %+v, %v; want one of %d or later", done, err, before)
	}
}
