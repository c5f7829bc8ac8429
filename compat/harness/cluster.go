package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Cluster is upstream's kube-apiserver over etcd, each in a process of its own: no controllers, no
// nodes. Its audit log has every request for ConfigMaps.
type Cluster struct {
	URL string
	// Admin may do everything.
	Admin *Identity

	t         testing.TB
	authority *authority
	dir       string
	port      string
	etcd      *daemon
	etcdURL   string
	api       *daemon
	flags     []string // of kube-apiserver, besides those that all have
}

// daemon is a program that does not say when it serves.
type daemon struct {
	cmd *exec.Cmd
	log Printed
}

func startDaemon(t testing.TB, program string, args ...string) *daemon {
	t.Helper()
	// Not to end with the test's context: kill waits for it.
	d := &daemon{cmd: exec.CommandContext(context.WithoutCancel(t.Context()), program, args...)}
	d.cmd.Stdout, d.cmd.Stderr = &d.log, &d.log
	d.cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return d
}

// kill kills it and waits for its end.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill() // it may have ended
	_ = d.cmd.Wait()         // its error is that it was killed
}

// policy is what the audit log has.
const policy = `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["ResponseStarted","ResponseComplete"],
	"rules":[{"level":"Metadata","resources":[{"group":"","resources":["configmaps"]}]},{"level":"None"}]}`

// StartCluster builds kube-apiserver and etcd where that was not done yet, starts both, with further
// flags of kube-apiserver, waits until they are ready, and ends them with the test.
func StartCluster(t testing.TB, flags ...string) *Cluster {
	t.Helper()
	programs := CacheDir(t, "cluster")
	installOnce(t, filepath.Join(programs, "lock"))
	c := &Cluster{
		t: t, authority: newAuthority(t), dir: t.TempDir(), port: freePort(t), etcdURL: "http://127.0.0.1:" + freePort(t),
		flags: flags,
	}
	c.URL, c.Admin = "https://127.0.0.1:"+c.port, c.Identity("admin", "system:masters")
	own := c.authority.server(t)
	for name, text := range map[string][]byte{
		"ca.crt": own.CA, "server.crt": own.Cert, "server.key": own.Key, "accounts.key": keyPEM(t, newKey(t)),
		"audit.json": []byte(policy),
	} {
		if err := os.WriteFile(c.file(name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for name, d := range map[string]*daemon{"kube-apiserver": c.api, "etcd": c.etcd} {
			if d == nil {
				continue
			}
			d.kill()
			if t.Failed() { // information is about its start
				all := regexp.MustCompile(`(?m)^[EF]\d.*$|^\{.*`).FindAllString(d.log.String(), -1)
				t.Logf("end of the output of %s:\n%s", name, strings.Join(all[max(0, len(all)-40):], "\n"))
			}
		}
	})
	c.startStore()
	c.startAPI()
	return c
}

// installOnce runs the script that builds the programs, in one process at a time.
func installOnce(t testing.TB, lock string) {
	t.Helper()
	held, err := os.OpenFile(lock, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }() // which unlocks it
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	Must(t, filepath.Join(Root(), "compat", "harness"), nil, "./install")
}

func (c *Cluster) file(name string) string { return filepath.Join(c.dir, name) }

func (c *Cluster) startStore() {
	peer := "http://127.0.0.1:" + freePort(c.t)
	c.etcd = startDaemon(c.t, filepath.Join(CacheDir(c.t, "cluster"), "etcd"),
		"--data-dir="+c.file("etcd"), "--name=one", "--listen-client-urls="+c.etcdURL, "--advertise-client-urls="+c.etcdURL,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=one="+peer, "--unsafe-no-fsync",
		"--log-level=error")
	Eventually(c.t, "etcd serves", func() bool {
		_, err := c.store("/v3/maintenance/status", "{}")
		return err == nil
	})
}

// starting is how long kube-apiserver may take until it is ready: some ten seconds of CPU, which a busy machine gives it
// in minutes.
const starting = 10 * time.Minute

func (c *Cluster) startAPI() {
	c.api = startDaemon(c.t, filepath.Join(CacheDir(c.t, "cluster"), "kube-apiserver"), append([]string{
		"--etcd-servers=" + c.etcdURL, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + c.port,
		"--tls-cert-file=" + c.file("server.crt"), "--tls-private-key-file=" + c.file("server.key"),
		"--client-ca-file=" + c.file("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-signing-key-file=" + c.file("accounts.key"),
		"--service-account-key-file=" + c.file("accounts.key"), "--service-cluster-ip-range=10.0.0.0/24",
		"--authorization-mode=RBAC",
		"--endpoint-reconciler-type=none", "--disable-admission-plugins=ServiceAccount",
		"--etcd-compaction-interval=0", // the tests say when
		"--audit-policy-file=" + c.file("audit.json"), "--audit-log-path=" + c.file("audit.log"), "--audit-log-mode=blocking",
	}, c.flags...)...)
	web := c.Admin.Client(c.t)
	eventually(c.t, starting, "kube-apiserver is ready", func() bool {
		req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.URL+"/readyz", nil)
		if err != nil {
			return false
		}
		resp, err := web.Do(req)
		if err != nil {
			return false
		}
		_ = resp.Body.Close() // it was not read
		return resp.StatusCode == http.StatusOK
	})
}

// Identity returns the identity of a user.
func (c *Cluster) Identity(user string, groups ...string) *Identity {
	return c.authority.client(c.t, user, groups...)
}

// Address returns where it listens, as host:port.
func (c *Cluster) Address() string { return "127.0.0.1:" + c.port }

// EtcdURL is where etcd's clients reach it, also after StartEtcd.
func (c *Cluster) EtcdURL() string { return c.etcdURL }

// StopEtcd kills etcd.
func (c *Cluster) StopEtcd() {
	c.etcd.kill()
	c.etcd = nil
}

// StartEtcd starts etcd again, with its data.
func (c *Cluster) StartEtcd() { c.startStore() }

// Stop kills kube-apiserver.
func (c *Cluster) Stop() {
	c.api.kill()
	c.api = nil
}

// Start starts kube-apiserver again. It remembers nothing: its window of changes begins now.
func (c *Cluster) Start() { c.startAPI() }

// Copy copies etcd's directory while both programs are stopped, and returns the copy's path.
func (c *Cluster) Copy() string {
	c.t.Helper()
	dir := filepath.Join(c.t.TempDir(), "copy")
	c.whileStopped(func() { replace(c.t, dir, c.file("etcd")) })
	return dir
}

// Restore starts both programs again on a copy of etcd's directory.
func (c *Cluster) Restore(dir string) {
	c.t.Helper()
	c.whileStopped(func() { replace(c.t, c.file("etcd"), dir) })
}

func (c *Cluster) whileStopped(do func()) {
	c.t.Helper()
	c.Stop()
	c.etcd.kill()
	do()
	c.startStore()
	c.startAPI()
}

// Freeze stops kube-apiserver without closing its connections, until Thaw.
func (c *Cluster) Freeze() { c.signal(syscall.SIGSTOP) }

// Thaw ends a Freeze.
func (c *Cluster) Thaw() { c.signal(syscall.SIGCONT) }

func (c *Cluster) signal(s syscall.Signal) {
	if err := c.api.cmd.Process.Signal(s); err != nil {
		c.t.Errorf("signal kube-apiserver: %v", err)
	}
}

// Compact makes etcd forget all that was superseded, and returns the revision.
func (c *Cluster) Compact() string {
	c.t.Helper()
	var status struct {
		Header struct{ Revision string }
	}
	answer, err := c.store("/v3/maintenance/status", "{}")
	if err != nil {
		c.t.Fatal(err)
	}
	if err := json.Unmarshal(answer, &status); err != nil {
		c.t.Fatalf("etcd's status: %v: %s", err, answer)
	}
	if _, err := c.store("/v3/kv/compaction",
		fmt.Sprintf(`{"revision":%q,"physical":true}`, status.Header.Revision)); err != nil {
		c.t.Fatal(err)
	}
	return status.Header.Revision
}

// store asks etcd, by its JSON gateway.
func (c *Cluster) store(path, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.etcdURL+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("etcd: %s %s: %s", path, resp.Status, answer)
	}
	return answer, err
}

// Reads are requests for the ConfigMaps of many objects.
type Reads struct {
	Lists   int // of the whole state, by LIST or by streaming list
	Watches int // from a resourceVersion
	// Progress are lists with a limit of 1, by which a relay asks how far the server is. Compared are
	// those with another limit and without a resourceVersion, by which it compares versions: after an absence of the server, and
	// for readers of the most recent state.
	Progress, Compared int
}

// String returns all numbers.
func (r Reads) String() string {
	return fmt.Sprintf("%d lists, %d watches, %d requests for progress and %d to compare versions",
		r.Lists, r.Watches, r.Progress, r.Compared)
}

// Passed is who reads, in Reads, where the relay passes on what somebody asks.
const Passed = "passed on by the relay"

// Reads returns what kube-apiserver was asked by a user so far, in all its lives.
func (c *Cluster) Reads(user string) Reads {
	c.t.Helper()
	log, err := os.ReadFile(c.file("audit.log"))
	if err != nil {
		c.t.Fatal(err)
	}
	var reads Reads
	for line := range bytes.Lines(log) {
		var event struct {
			Verb, RequestURI, UserAgent string
			User                        struct{ Username string }
		}
		if json.Unmarshal(line, &event) != nil {
			continue // a last line may not be complete yet
		}
		if event.User.Username == "relay" && !strings.HasPrefix(event.UserAgent, "gapless-relay/") {
			event.User.Username = Passed
		}
		if event.User.Username != user {
			continue
		}
		asked, err := url.Parse(event.RequestURI)
		if err != nil {
			c.t.Fatal(err)
		}
		switch q := asked.Query(); {
		case event.Verb == "list" && q.Get("limit") == "1":
			reads.Progress++
		case event.Verb == "list" && q.Has("limit") && !q.Has("resourceVersion"):
			reads.Compared++
		case event.Verb == "list", event.Verb == "watch" && q.Get("sendInitialEvents") == "true":
			reads.Lists++
		case event.Verb == "watch":
			reads.Watches++
		}
	}
	return reads
}
