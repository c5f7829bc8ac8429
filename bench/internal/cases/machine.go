package cases

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// Machine describes what the figures depend on: processors, memory, the file
// system of dir, and versions.
func Machine(dir string) string {
	model := "unknown processor"
	if raw, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := bytes.Cut(raw, []byte("model name")); ok {
			line, _, _ := bytes.Cut(rest, []byte("\n"))
			model = string(bytes.TrimLeft(line, "\t :"))
		}
	}
	memory := "?"
	if raw, err := os.ReadFile("/proc/meminfo"); err == nil {
		if _, rest, ok := bytes.Cut(raw, []byte("MemTotal:")); ok {
			line, _, _ := bytes.Cut(rest, []byte("\n"))
			var kb int64
			if _, err := fmt.Sscanf(string(line), "%d kB", &kb); err == nil {
				memory = fmt.Sprintf("%d", kb>>20)
			}
		}
	}
	return fmt.Sprintf("%d x %s, %s GiB, %s/%s, %s, data on %s; clients and servers share it",
		runtime.NumCPU(), model, memory, runtime.GOOS, runtime.GOARCH, runtime.Version(), filesystem(dir))
}

// filesystem names that of a directory, by its number (statfs(2)).
func filesystem(dir string) string {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return "an unknown file system"
	}
	switch s.Type {
	case 0xef53:
		return "ext4"
	case 0x58465342:
		return "xfs"
	case 0x9123683e:
		return "btrfs"
	case 0x794c7630:
		return "overlayfs"
	case 0x01021994:
		return "tmpfs, which is memory: fsync costs nothing there"
	}
	return fmt.Sprintf("file system %#x", s.Type)
}
