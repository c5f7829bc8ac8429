package memory

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseProgram releases the pages of the program's own file: most were only needed to
// start. Pages that are needed again come from the page cache. Mappings that were or can
// be written stay.
func releaseProgram() {
	own, err := os.Executable()
	if err != nil {
		return
	}
	raw, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	for _, m := range cleanMappings(string(raw), own) {
		// By the raw call: these are addresses of code and constants, not of Go's memory.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED) // advice may be refused
	}
}

// mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// cleanMappings returns the mappings of a file in the text of /proc/PID/smaps that
// are not writable and hold no page that differs from the file.
func cleanMappings(smaps, file string) []mapping {
	var all []mapping
	var m mapping
	var of, clean bool
	for line := range strings.Lines(smaps) {
		fields := strings.Fields(line)
		var kilobytes int
		switch {
		case len(fields) >= 5 && strings.Contains(fields[0], "-"): // the head of a mapping
			n, err := fmt.Sscanf(fields[0], "%x-%x", &m.from, &m.to)
			of = err == nil && n == 2 && len(fields) > 5 && strings.Join(fields[5:], " ") == file
			clean = of && fields[1][0] == 'r' && fields[1][1] == '-'
		case !of || len(fields) < 2:
		case fields[0] == "Anonymous:", fields[0] == "Swap:": // copies of our own
			if _, err := fmt.Sscan(fields[1], &kilobytes); err != nil || kilobytes != 0 {
				clean = false
			}
		case fields[0] == "VmFlags:" && clean: // the last line of a mapping
			all = append(all, m)
		}
	}
	return all
}
