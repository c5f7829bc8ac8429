package fabric8

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gapless-io/gapless/compat/harness"
)

// needMaven looks for Maven and a JDK. In CI it installs them where they are missing,
// and fails where that cannot be done; elsewhere the test is skipped.
func needMaven(t *testing.T) {
	t.Helper()
	missing := func() error {
		for _, tool := range []string{"java", "javac", "mvn"} {
			if _, err := exec.LookPath(tool); err != nil {
				return err
			}
		}
		return nil
	}
	err := missing()
	switch {
	case err == nil:
		return
	case os.Getenv("CI") != "true":
		t.Skipf("%v; ./install installs what is missing, from Debian's packages", err)
	}
	if out, err := exec.CommandContext(t.Context(), "./install").CombinedOutput(); err != nil {
		t.Fatalf("install a JDK and Maven: %v\n%s", err, out)
	}
	if err := missing(); err != nil {
		t.Fatal(err)
	}
}

// build compiles the program of a folder and returns its class path.
func build(t *testing.T, folder string) string {
	t.Helper()
	needMaven(t)
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "mvn", "-B", "-q", "-ntp", "-Dbuild="+dir, "-DoutputDirectory="+filepath.Join(dir, "lib"),
		"compile", "dependency:copy-dependencies")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", folder, err, out)
	}
	return filepath.Join(dir, "classes") + ":" + filepath.Join(dir, "lib", "*")
}

// identity is the administrator's, as the server's kubeconfig has it.
type identity struct {
	ca, cert, key []byte
	files         []string // the same three
	kubeconfig    string
}

func administrator(t *testing.T, s *harness.Server) *identity {
	t.Helper()
	text, err := os.ReadFile(s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	field := func(name string) []byte {
		found := regexp.MustCompile(`"?` + name + `"?: *"?([A-Za-z0-9+/=]+)`).FindSubmatch(text)
		if found == nil {
			t.Fatalf("no %s in the kubeconfig", name)
		}
		raw, err := base64.StdEncoding.DecodeString(string(found[1]))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return raw
	}
	id := &identity{ca: field("certificate-authority-data"), cert: field("client-certificate-data"), key: field("client-key-data")}
	dir := t.TempDir()
	for _, part := range []struct {
		name    string
		content []byte
	}{{"ca.crt", id.ca}, {"client.crt", id.cert}, {"client.key", sec1(t, id.key)}} {
		path := filepath.Join(dir, part.name)
		if err := os.WriteFile(path, part.content, 0o600); err != nil {
			t.Fatal(err)
		}
		id.files = append(id.files, path)
	}
	id.kubeconfig = filepath.Join(dir, "kubeconfig")
	text = bytes.ReplaceAll(text, []byte(base64.StdEncoding.EncodeToString(id.key)), []byte(base64.StdEncoding.EncodeToString(sec1(t, id.key))))
	if err := os.WriteFile(id.kubeconfig, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return id
}

// sec1 is a key in the form that fabric8 can read: PKCS #8 it takes for RSA, from 4.2
// to 7.8.
func sec1(t *testing.T, key []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(key)
	if block == nil {
		t.Fatal("the key is no PEM")
	}
	if block.Type == "EC PRIVATE KEY" {
		return key
	}
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(private.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// client is an HTTP client of the administrator.
func (id *identity) client(t *testing.T) *http.Client {
	t.Helper()
	pair, err := tls.X509KeyPair(id.cert, id.key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(id.ca)
	tr := &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}},
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// program is a JVM that runs watches, each by a name.
type program struct {
	t       *testing.T
	cmd     *exec.Cmd
	in      io.WriteCloser
	watches map[string]*watching
	stores  chan map[string]string
	read    chan struct{} // closed when its output has ended
	stderr  bytes.Buffer

	mu sync.Mutex
	// mu guards notes.
	notes []string // what it said that is no event
}

// watching is one of its watches.
type watching struct {
	witness *harness.Witness
	counter *harness.Counter
}

// start runs a main class until the test ends.
func start(t *testing.T, classPath, main string, args []string, watches map[string]*watching) *program {
	t.Helper()
	p := &program{t: t, watches: watches, stores: make(chan map[string]string, 1), read: make(chan struct{})}
	p.cmd = exec.CommandContext(t.Context(), "java", append([]string{
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", classPath, main,
	}, args...)...)
	p.cmd.Stderr = &p.stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the program
		defer close(p.read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.hear(lines.Text())
		}
	}()
	t.Cleanup(p.stop)
	return p
}

// hear takes note of a line: "ADDED name key rv", "UPDATED name key from to",
// "DELETED name key rv", "REQUEST code method url", "STORE name key=rv …", or a note.
func (p *program) hear(line string) {
	words := strings.Split(line, " ")
	w := p.watches[words[min(1, len(words)-1)]]
	switch what := words[0]; {
	case what == "ADDED" && len(words) == 4:
		w.witness.Added(words[2], words[3])
	case what == "UPDATED" && len(words) == 5:
		w.witness.Updated(words[2], words[3], words[4])
	case what == "DELETED" && len(words) == 4:
		w.witness.Deleted(words[2], words[3])
	case what == "STORE":
		store := map[string]string{}
		for _, entry := range words[2:] {
			key, rv, _ := strings.Cut(entry, "=")
			store[key] = rv
		}
		p.stores <- store
	case what == "REQUEST" && len(words) == 4:
		for _, w := range p.watches {
			count(w.counter, words[2], words[3])
		}
		fallthrough
	default:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.notes = append(p.notes, time.Now().Format("05.000 ")+line)
	}
}

// count lets a counter see a request that another process has sent.
func count(c *harness.Counter, method, url string) {
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		return
	}
	_, _ = c.Wrap(nowhere{}).RoundTrip(req) //nolint:bodyclose // there is none
}

type nowhere struct{}

func (nowhere) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("not sent") }

// store asks for what a watch has.
func (p *program) store(name string) map[string]string {
	if _, err := io.WriteString(p.in, name+"\n"); err != nil {
		return nil
	}
	select {
	case store := <-p.stores:
		return store
	case <-p.read:
		return nil
	}
}

// said returns the notes that match.
func (p *program) said(pattern string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var lines []string
	for _, line := range p.notes {
		if regexp.MustCompile(pattern).MatchString(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// stop ends the program; it is called by the test's end if not before.
func (p *program) stop() {
	if p.in == nil {
		return
	}
	_ = p.in.Close() // it may have ended
	p.in = nil
	<-p.read
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("the program ended with %v\n%s", err, p.stderr.String())
	}
	if p.t.Failed() {
		p.t.Logf("the program said:\n%s\n%s", strings.Join(p.said("."), "\n"), p.stderr.String())
	}
}
