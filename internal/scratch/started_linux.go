package scratch

import (
	"fmt"
	"os"
	"strings"
)

// started says when a process was started, in clock ticks since the machine was; "" if there is
// no such process.
func started(process int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process))
	if err != nil {
		return ""
	}
	// The name of the program, in parentheses, may contain anything. The 20th field behind it
	// is starttime: proc_pid_stat(5).
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}
