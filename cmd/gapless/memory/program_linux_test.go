package memory

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOnlyCleanMappingsAreReleased(t *testing.T) {
	const smaps = `00400000-01c93000 r-xp 00000000 fe:01 101 /bin/the program
Rss: 14832 kB
Private_Dirty: 0 kB
Anonymous: 0 kB
Swap: 0 kB
VmFlags: rd ex mr mw me
01c93000-03e0e000 r--p 01893000 fe:01 101 /bin/the program
Private_Dirty: 8 kB
Anonymous: 8 kB
Swap: 0 kB
VmFlags: rd mr mw me
03e0e000-03f0e000 r--p 03a0e000 fe:01 101 /bin/the program
Private_Dirty: 4 kB
Anonymous: 0 kB
VmFlags: rd mr mw me
03f0e000-03fb0000 rw-p 03b0e000 fe:01 101 /bin/the program
Private_Dirty: 0 kB
Anonymous: 0 kB
VmFlags: rd wr mr mw me
7f0000000000-7f0000021000 r-xp 00000000 fe:01 102 /lib/libc.so
Private_Dirty: 0 kB
Anonymous: 0 kB
VmFlags: rd ex mr mw me
`
	want := []mapping{{0x400000, 0x1c93000}, {0x3e0e000, 0x3f0e000}}
	if diff := cmp.Diff(want, cleanMappings(smaps, "/bin/the program"), cmp.AllowUnexported(mapping{})); diff != "" {
		t.Error(diff)
	}
}

func TestProgramContinuesAfterReleasingItsPages(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatalf("find the program: %v", err)
	}
	raw, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skipf("there is no /proc here: %v", err)
	}
	if len(cleanMappings(string(raw), own)) == 0 {
		t.Errorf("no mapping of %s was found", own)
	}
	releaseProgram()
}
