package suites

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// wait waits for a command that was started. It returns the processor time of the processes that
// the command started and waited for, and not its own: that is what the kernel says of a process
// that has ended and that nobody has waited for.
func wait(cmd *exec.Cmd) (children time.Duration, err error) {
	for {
		err = unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	text, readErr := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	ended := cmd.Wait()
	if err = errors.Join(err, readErr); err != nil {
		return 0, err
	}
	// proc(5): the name is in parentheses and may have some itself; cutime and cstime are 16 and 17.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const tick = time.Second / 100 // USER_HZ
	for _, field := range fields[13:15] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		children += time.Duration(ticks) * tick
	}
	return children, ended
}
