package inspect_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gapless-io/gapless/gaplesstest"
)

// screen is a pseudo terminal on which a program runs: its keys are pressed, and what it draws is read.
type screen struct {
	t       *testing.T
	keys    *os.File
	program *os.File
	text    chan string
	ended   chan error // what the program has returned
	drawn   string     // since the last key
}

func openScreen(t *testing.T, rows, columns uint16) *screen {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("open a terminal: %v", err)
	}
	if err := unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatalf("unlock the terminal: %v", err)
	}
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatalf("find the terminal: %v", err)
	}
	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("open a terminal: %v", err)
	}
	s := &screen{t: t, keys: keys, program: program, text: make(chan string), ended: make(chan error, 1)}
	s.resize(rows, columns)
	go func() { // ends when the program has closed the terminal
		defer close(s.text)
		for buffer := make([]byte, 1<<16); ; {
			n, err := keys.Read(buffer)
			if n > 0 {
				s.text <- string(buffer[:n])
			}
			if err != nil {
				return
			}
		}
	}()
	return s
}

func (s *screen) resize(rows, columns uint16) {
	s.t.Helper()
	if err := unix.IoctlSetWinsize(int(s.program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
		s.t.Fatalf("set the size of the terminal: %v", err)
	}
}

// press presses keys.
func (s *screen) press(keys string) {
	s.t.Helper()
	s.drawn = ""
	if _, err := io.WriteString(s.keys, keys); err != nil {
		s.t.Fatalf("press %q: %v", keys, err)
	}
}

// await waits until something is drawn that matches.
func (s *screen) await(pattern string) {
	s.t.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for want := regexp.MustCompile("(?s)" + pattern); !want.MatchString(s.drawn); {
		select {
		case text := <-s.text:
			s.drawn += text
		case err := <-s.ended:
			s.t.Fatalf("the program has ended before it drew %q: %v\n%q", pattern, err, s.drawn)
		case <-limit.C:
			s.t.Fatalf("the program has not drawn %q in a minute, but %q", pattern, s.drawn)
		}
	}
}

// end returns what the program returns. Meanwhile its output is read: otherwise it could not write.
func (s *screen) end() error {
	for {
		select {
		case text := <-s.text:
			s.drawn += text
		case err := <-s.ended:
			return err
		}
	}
}

// TestTopShowsTablesAndKeys: on a terminal, of a server, until q is pressed; then the terminal is as it was.
func TestTopShowsTablesAndKeys(t *testing.T) {
	server := gaplesstest.New(t)
	c, err := kubernetes.NewForConfig(server.RESTConfig())
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	w, err := c.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer w.Stop()
	s := openScreen(t, 24, 200)
	before, err := unix.IoctlGetTermios(int(s.program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatalf("read the settings of the terminal: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // ends with the key q
		s.ended <- execute(ctx, streams{s.program, s.program, io.Discard}, server.RESTConfig(), "top", "--interval", "50ms")
	}()
	s.await(`\[1 resources\] 2 watches 3 expired   as sent .*RESOURCE +OBJECTS`)
	s.await(`rows 1 to \d+ of \d+`)
	s.press("\x1b[C\x1b[C") // to the second column
	s.await(`by OBJECTS ↓`)
	s.press("i")
	s.await(`by OBJECTS ↑`)
	s.press("w")
	s.await(`RESOURCE .*REMOVED-BY .*RESOURCEVERSION`)
	s.press("2")
	s.await(`\[2 watches\].*EVENTS/S.*configmaps +app=web`)
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"app": "web"}}}
	if _, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create: %v", err)
	}
	s.await(`configmaps +app=web +\d+s +1 `) // the next answer has the event
	s.press("?")
	s.await(`sort by another column`)
	s.press("x")
	s.await(`\[2 watches\]`)
	s.press("\t")
	s.await(`\[3 expired\].*none`)
	s.resize(10, 40)
	s.drawn = ""
	s.await(`\[3 expired\]`)
	for _, line := range strings.Split(s.drawn, "\r\n")[1:] {
		shown := regexp.MustCompile("\x1b\\[[0-9;?]*[a-zA-Z]").ReplaceAllString(line, "")
		if n := len([]rune(strings.Split(shown, "\x1b")[0])); n > 40 && !strings.Contains(line, "\x1b[H") {
			t.Errorf("a line has %d columns of 40: %q", n, line)
		}
	}
	s.press("q")
	if err := s.end(); err != nil {
		t.Errorf("gapless top: %v", err)
	}
	after, err := unix.IoctlGetTermios(int(s.program.Fd()), unix.TCGETS)
	if err != nil || *after != *before {
		t.Errorf("the settings of the terminal are %+v, %v; they were %+v", after, err, before)
	}
	if err := s.program.Close(); err != nil {
		t.Errorf("close the terminal: %v", err)
	}
	for text := range s.text { // until the terminal is closed
		s.drawn += text
	}
	if !strings.HasSuffix(s.drawn, "\x1b[?7h\x1b[?25h\x1b[?1049l") {
		t.Errorf("the screen that was there before is not shown again: %q", s.drawn)
	}
	if err := s.keys.Close(); err != nil {
		t.Errorf("close the terminal: %v", err)
	}
}
