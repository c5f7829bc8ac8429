package harness

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// Foreign is a program in another language that runs named watches. It prints their
// events on its standard output, one per line: "ADDED name key rv", "UPDATED name
// key from to", "DELETED name key rv", "REQUEST code method url", or anything else, which
// is a note. It answers a name on its standard input with "STORE name key=rv …", and
// ends with its input.
type Foreign struct {
	t       testing.TB
	cmd     *exec.Cmd
	in      io.WriteCloser
	watches map[string]*Watching
	stores  chan map[string]string
	read    chan struct{} // closed when its output has ended
	stderr  bytes.Buffer

	mu sync.Mutex
	// mu guards notes.
	notes []string // its other output
}

// Watching is one of its watches.
type Watching struct {
	Witness *Witness
	Counter *Counter
}

// Watches returns the Watching of each watch, by name; paths are their URL paths.
func Watches(paths map[string]string) map[string]*Watching {
	all := map[string]*Watching{}
	for name, path := range paths {
		all[name] = &Watching{Witness: NewWitness(), Counter: &Counter{Path: path}}
	}
	return all
}

// StartForeign runs a program until the test ends.
func StartForeign(t testing.TB, cmd *exec.Cmd, watches map[string]*Watching) *Foreign {
	t.Helper()
	p := &Foreign{t: t, cmd: cmd, watches: watches, stores: make(chan map[string]string, 1), read: make(chan struct{})}
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
			p.handle(lines.Text())
		}
	}()
	t.Cleanup(p.Stop)
	return p
}

// handle handles a line of its output.
func (p *Foreign) handle(line string) {
	words := strings.Split(line, " ")
	w := p.watches[words[min(1, len(words)-1)]]
	switch kind := words[0]; {
	case kind == "ADDED" && len(words) == 4:
		w.Witness.Added(words[2], words[3])
	case kind == "UPDATED" && len(words) == 5:
		w.Witness.Updated(words[2], words[3], words[4])
	case kind == "DELETED" && len(words) == 4:
		w.Witness.Deleted(words[2], words[3])
	case kind == "STORE":
		store := map[string]string{}
		for _, entry := range words[2:] {
			key, rv, _ := strings.Cut(entry, "=")
			store[key] = rv
		}
		p.stores <- store
	case kind == "REQUEST" && len(words) == 4:
		for _, w := range p.watches {
			count(w.Counter, words[2], words[3])
		}
		fallthrough
	default:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.notes = append(p.notes, time.Now().Format("05.000 ")+line)
	}
}

// count counts a request that another process sent.
func count(c *Counter, method, url string) {
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		return
	}
	_, _ = c.Wrap(nowhere{}).RoundTrip(req) //nolint:bodyclose // there is none
}

type nowhere struct{}

func (nowhere) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("not sent") }

// Store asks the program for the objects of a watch: "namespace/name" to resourceVersion.
func (p *Foreign) Store(name string) map[string]string {
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

// Output returns the other lines of its output that match.
func (p *Foreign) Output(pattern string) []string {
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

// Stop ends the program; it is called by the test's end if not before.
func (p *Foreign) Stop() {
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
		p.t.Logf("output of the program:\n%s\n%s", strings.Join(p.Output("."), "\n"), p.stderr.String())
	}
}

// Ended reports whether its output has ended.
func (p *Foreign) Ended() bool {
	select {
	case <-p.read:
		return true
	default:
		return false
	}
}
