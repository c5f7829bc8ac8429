package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo terminal: what a program is to have, and where its output is
// read.
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
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("open a file: %v", err)
	}
	return program, reader
}

func TestDemoShowsCountersAndColorsOnATerminal(t *testing.T) {
	for _, env := range []string{"NO_COLOR=", "NO_COLOR=1"} {
		t.Run(env, func(t *testing.T) {
			t.Parallel()
			slave, master := terminal(t)
			cmd := process(t, t.TempDir(), "demo", "--changes", "30")
			cmd.Env = append(cmd.Env, "TERM=xterm", env)
			cmd.Stdout, cmd.Stderr = slave, slave
			if err := cmd.Start(); err != nil {
				t.Fatalf("start the command: %v", err)
			}
			if err := slave.Close(); err != nil {
				t.Fatalf("close slave: %v", err)
			}
			raw, _ := io.ReadAll(master) // it ends with EIO when the program has
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v:\n%s", err, raw)
			}
			out := string(raw)
			if n := strings.Count(out, "\r\x1b[K"); n != 3 {
				t.Errorf("the counters were removed %d times, want once a step", n)
			}
			if n := strings.Count(out, "\x1b[K"); n < 10 {
				t.Errorf("the counters were drawn %d times:\n%q", n, out)
			}
			if colored := strings.Contains(out, "\x1b[32m"+"up to date"); colored != (env == "NO_COLOR=") {
				t.Errorf("colored: %v:\n%q", colored, out)
			}
			if !strings.Contains(out, "equal to the server") {
				t.Errorf("no end:\n%q", out)
			}
		})
	}
}
