package harness

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Commands makes a script of a page's commands, which ends with the first that fails, and counts
// those that show what they print: what follows "# → ". Of these refused says which ones are to
// fail, by what they print; nil: none.
func Commands(page string, refused func(prints string) bool) (script string, shown int) {
	var b strings.Builder
	b.WriteString(`set -euo pipefail
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
shows() {
	local out
	out=$(cat)
	printf '%s\n' "$out"
	[[ $out == *"$1"* ]] || { printf 'the page says that this prints %s\n' "$1"; return 1; }
}
`)
	for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(block[1]) {
			command, prints, shows := strings.Cut(strings.TrimRight(line, "\n"), "# → ")
			if shows { // other lines stay as they are: a document's indentation counts
				shown++
				command = strings.TrimSpace(command)
				if refused != nil && refused(prints) {
					command = "{ ! " + command + "; }"
				}
				command = fmt.Sprintf("%s 2>&1 | shows %q", command, prints)
			}
			b.WriteString(command + "\n")
		}
	}
	return b.String(), shown
}

// Section returns the part of a page below a heading of the second level; empty if there is none.
func Section(page, heading string) string {
	_, below, _ := strings.Cut(page, "\n## "+heading+"\n")
	section, _, _ := strings.Cut(below, "\n## ")
	return section
}

// RunGroup runs a command of exec.CommandContext, and ends what it started: with it, or with its
// context. It returns what they print.
func RunGroup(cmd *exec.Cmd) ([]byte, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second // for what is asked to end: a server closes its files
	out, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		// ESRCH: nothing is left, as it should be.
		if killed := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); killed != nil && !errors.Is(killed, syscall.ESRCH) {
			err = errors.Join(err, killed)
		}
	}
	return out, err
}

// Printed is what a program has printed so far. It is safe for concurrent use.
type Printed struct {
	// mu guards text.
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (p *Printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// String returns all of it.
func (p *Printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}
