//go:build linux

package crash_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gapless-io/gapless/conformance/crash/program"
)

// TestServerWithoutFileDescriptorsRefusesWritesUntilSomeAreFree opens more
// connections than the server may have handles. Then a segment that is full
// cannot be followed by a new one.
func TestServerWithoutFileDescriptorsRefusesWritesUntilSomeAreFree(t *testing.T) {
	const handles, connections = 128, 300
	// Its bounds on connections would leave handles for its files.
	s := newSite(t, program.Config{Handles: handles, Flags: []string{
		"--max-connections", "1000", "--max-connections-per-address", "1000", "--max-anonymous-connections", "1000",
	}})
	s.mustBeHealthy()
	fds := fmt.Sprintf("/proc/%d/fd", s.server.PID())
	var idle []net.Conn
	hangUp := func() {
		for _, conn := range idle {
			_ = conn.Close() // whatever became of it
		}
		idle = nil
	}
	t.Cleanup(hangUp)
	for range connections {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.server.Host())
		if err != nil {
			t.Fatalf("connect: %v", err)
		}
		idle = append(idle, conn)
	}
	s.until("the server has no handle left", func() bool {
		open, err := os.ReadDir(fds)
		return err == nil && len(open) >= handles-1
	})
	if !s.refused(500) {
		t.Skipf("8 MB were written without a handle to spare: the server has kept some back")
	}
	s.mustServe()
	hangUp()
	s.mustRecover()
	s.mustSurviveAKill()
}

// TestServerWithoutDiskSpaceRefusesWritesUntilSpaceIsFreed fills the file system
// under the data.
func TestServerWithoutDiskSpaceRefusesWritesUntilSpaceIsFreed(t *testing.T) {
	disk := smallDisk(t)
	s := newSite(t, program.Config{DataDir: filepath.Join(disk, "data")})
	s.mustBeHealthy()
	ballast := filepath.Join(disk, "ballast")
	s.until("writes are refused", func() bool {
		fill(t, ballast)
		return s.refused(80)
	})
	fill(t, ballast)
	s.mustServe()
	if err := os.Remove(ballast); err != nil {
		t.Fatalf("remove a file: %v", err)
	}
	s.mustRecover()
	s.mustSurviveAKill()
}

// TestServerRestartedWithoutDiskSpaceLosesNothing restarts a server on a full file
// system, as an orchestrator does. It may serve, or say why it does not start.
func TestServerRestartedWithoutDiskSpaceLosesNothing(t *testing.T) {
	disk := smallDisk(t)
	s := newSite(t, program.Config{DataDir: filepath.Join(disk, "data")})
	ballast := filepath.Join(disk, "ballast")
	s.until("writes are refused", func() bool {
		fill(t, ballast)
		return s.refused(80)
	})
	for range 5 {
		fill(t, ballast)
		if err := s.server.Kill(); err != nil {
			t.Fatalf("kill server: %v", err)
		}
		if err := s.server.Start(t.Context()); err != nil {
			if !bytes.Contains(s.server.Log(4<<10), []byte("no space left")) {
				t.Errorf("a start on a full file system: %v, without the reason", err)
			}
			t.Logf("it does not start on a full file system")
			break
		}
		s.c = s.client(program.HTTP1)
		s.mustHaveAll("after a start on a full file system")
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatalf("remove a file: %v", err)
	}
	if s.server.EndedByItself() {
		s.mustRestart()
	}
	s.until("writes are accepted again", func() bool { return s.write().Code == http.StatusCreated })
	s.mustHaveAll("after the shortage")
}

// smallDisk mounts a file system that is soon full.
func smallDisk(t *testing.T) string {
	t.Helper()
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("a file system of a few megabytes needs the right to mount one: %v. "+
			"TestFullDiskRefusesWritesUntilThereIsSpace of the core module fails the same calls below the log.", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return disk
}

// fill takes all space there is, a page at a time at the end.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		if strings.Contains(err.Error(), unix.ENOSPC.Error()) {
			return
		}
		t.Fatalf("open a file: %v", err)
	}
	for size := 1 << 20; size >= 1<<12; {
		if n, err := f.Write(make([]byte, size)); err != nil || n < size {
			size /= 4
		}
	}
	_ = f.Close() // it could not be filled further
}

// TestServerThatRunsOutOfMemoryLosesNothing takes the server's address space: it
// ends as if it was killed, which is all that can be asked of it.
func TestServerThatRunsOutOfMemoryLosesNothing(t *testing.T) {
	s := newSite(t, program.Config{})
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.server.PID()))
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	var pages uint64
	if _, err := fmt.Sscan(string(raw), &pages); err != nil {
		t.Fatalf("read the numbers: %v", err)
	}
	bytes := pages*uint64(os.Getpagesize()) + 8<<20
	if err := unix.Prlimit(s.server.PID(), unix.RLIMIT_AS, &unix.Rlimit{Cur: bytes, Max: bytes}, nil); err != nil {
		t.Fatalf("prlimit: %v", err)
	}
	over := s.server.Ended()
	for range 20_000 {
		select {
		case <-over:
		default:
			if a := s.write(); a.Code != http.StatusCreated && a.Code != 0 {
				t.Errorf("a write with little memory: %s", a)
			} else if a.Code == 0 {
				s.n-- // of unknown outcome: write the same again
			}
			continue
		}
		break
	}
	if !s.server.EndedByItself() {
		t.Skip("the server lives in the memory that it had")
	}
	if !strings.Contains(string(s.server.Log(1<<20)), "memory") {
		t.Errorf("the server ended without naming memory:\n%s", s.server.Log(4<<10))
	}
	s.afterUnknown()
}

// afterUnknown restarts a server that ended during a write.
func (s *site) afterUnknown() {
	s.t.Helper()
	if err := s.server.Start(s.t.Context()); err != nil {
		s.t.Fatalf("start server: %v", err)
	}
	s.c = s.client(program.HTTP1)
	if a := s.write(); a.Code == http.StatusConflict { // it had happened
		s.acked = append(s.acked, fmt.Sprintf("n%05d", s.n))
	} else if a.Code != http.StatusCreated {
		s.t.Fatalf("a write after a restart: %s", a)
	}
	s.mustHaveAll("after a restart")
	s.t.Logf("%d writes were acknowledged and are there", len(s.acked))
}

// TestServerServesWithinASoftMemoryLimit writes more than the limit of the Go
// runtime, whose garbage collector then works harder.
func TestServerServesWithinASoftMemoryLimit(t *testing.T) {
	s := newSite(t, program.Config{Env: []string{"GOMEMLIMIT=32MiB"}})
	for range 700 {
		if a := s.write(); a.Code != http.StatusCreated {
			t.Fatalf("a write within a soft limit: %s", a)
		}
	}
	s.mustHaveAll("within a soft limit")
	s.mustHaveSeenAll()
	s.mustSurviveAKill()
}
