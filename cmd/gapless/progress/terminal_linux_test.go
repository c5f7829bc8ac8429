package progress_test

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gapless-io/gapless/cmd/gapless/progress"
)

// terminal opens a pseudo terminal of 80 columns: what a program is to have, and where its output is read.
func terminal(t *testing.T) (program, reader *os.File) {
	t.Helper()
	reader, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("open a file: %v", err)
	}
	t.Cleanup(func() { _ = reader.Close() }) // nothing is written
	if err := unix.IoctlSetPointerInt(int(reader.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatalf("ioctl set pointer int: %v", err)
	}
	n, err := unix.IoctlGetInt(int(reader.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatalf("ioctl get int: %v", err)
	}
	if program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatalf("open a file: %v", err)
	}
	if err := unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatalf("ioctl set winsize: %v", err)
	}
	return program, reader
}

// drawn returns what a Meter draws on a terminal.
func drawn(t *testing.T, use func(t *testing.T, to io.Writer)) string {
	t.Helper()
	slave, master := terminal(t)
	synctest.Test(t, func(t *testing.T) { use(t, slave) })
	if err := slave.Close(); err != nil {
		t.Fatalf("close the terminal: %v", err)
	}
	raw, _ := io.ReadAll(master) // it ends with EIO, as nobody has the terminal
	return string(raw)
}

func TestATerminalGetsABarWithTheTimeThatIsLeft(t *testing.T) {
	out := drawn(t, func(_ *testing.T, to io.Writer) {
		m := progress.New(to, "checked", progress.Bytes)
		for i := range int64(60) {
			<-time.After(100 * time.Millisecond)
			m.Set(i<<20, 100<<20)
		}
		m.End()
	})
	states := strings.Split(out, "\r")
	if len(states) < 10 {
		t.Errorf("it was drawn %d times:\n%q", len(states), out)
	}
	if !regexp.MustCompile(`checked +5\d% .*MiB.*\[\d+s:\d+s\]`).MatchString(out) {
		t.Errorf("there is no bar at half of the way, with the time that is left:\n%q", out)
	}
	for _, state := range states {
		if n := len([]rune(strings.TrimSuffix(strings.TrimSpace(state), "\x1b[0K"))); n > 80 {
			t.Errorf("a bar has %d columns of 80: %q", n, state)
		}
	}
	if !strings.HasSuffix(out, "\r\n") {
		t.Errorf("the bar does not end its line: %q", out)
	}
}

func TestATerminalGetsATurningSignWithoutATotal(t *testing.T) {
	out := drawn(t, func(t *testing.T, to io.Writer) {
		m := progress.New(to, "backed up", progress.Objects)
		for i := range int64(60) {
			<-time.After(100 * time.Millisecond)
			m.Set(i, 0)
		}
		m.End()
		if err := progress.Wait(to, "compacting", func() error { <-time.After(10 * time.Second); return nil }); err != nil {
			t.Errorf("wait: %v", err)
		}
	})
	if !regexp.MustCompile(`backed up \(5\d/-\).*\[\d+s\]|backed up \(5\d\).*\[\d+s\]`).MatchString(out) {
		t.Errorf("it does not say what is done:\n%q", out)
	}
	if !regexp.MustCompile(`compacting .*\[[5-9]s\]`).MatchString(out) {
		t.Errorf("it does not say how long it takes already:\n%q", out)
	}
}
