package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sassoftware/go-rpmutils"
)

// installedFiles are those of both packages, besides the completions of zsh.
var installedFiles = []string{ //nolint:gochecknoglobals // a table
	"/etc/gapless/gapless.env", "/usr/bin/gapless", "/usr/bin/kubectl-gapless", "/usr/bin/kubectl_complete-gapless",
	"/usr/lib/systemd/system/gapless.service", "/usr/lib/sysusers.d/gapless.conf",
	"/usr/share/bash-completion/completions/gapless", "/usr/share/doc/gapless/copyright",
	"/usr/share/fish/vendor_completions.d/gapless.fish", "/usr/share/man/man1/gapless-serve.1.gz",
}

// dpkg runs dpkg for a root directory.
func dpkg(t *testing.T, root string, args ...string) string {
	t.Helper()
	all := []string{"--root=" + root, "--force-script-chrootless", "--log=" + filepath.Join(root, "dpkg.log")}
	if os.Getuid() != 0 {
		all = append(all, "--force-not-root")
	}
	cmd := exec.CommandContext(t.Context(), "dpkg", append(all, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("dpkg %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestTheDebianPackageIsInstalledUpgradedAndRemoved(t *testing.T) {
	forLinux(t)
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("dpkg is not installed")
	}
	root := t.TempDir()
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "etc"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatalf("make a directory: %v", err)
		}
	}
	for _, name := range []string{"status", "available"} {
		if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg", name), nil, 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
	}
	deb := one(t, "gapless_*.deb")
	dpkg(t, root, "-i", deb)
	for _, name := range append(installedFiles, "/usr/share/zsh/vendor-completions/_gapless") {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Errorf("after the installation: %v", err)
		}
	}
	if info, err := os.Stat(filepath.Join(root, "etc/gapless")); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("the directory of the configuration: %v, %v", info.Mode(), err)
	}
	if _, err := exec.LookPath("systemd-sysusers"); err == nil {
		users, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
		if err != nil || !regexp.MustCompile(`(?m)^gapless:.*:/var/lib/gapless:/usr/sbin/nologin$`).Match(users) {
			t.Errorf("the user was not made: %v\n%s", err, users)
		}
	}
	for _, name := range []string{"gapless", "kubectl-gapless"} {
		out, err := output(t.Context(), root, filepath.Join(root, "usr/bin", name), "version")
		if err != nil || !strings.HasPrefix(string(out), "gapless v") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	checkUnit(t, root)

	// What was configured outlives an upgrade and a removal, and not a purge.
	settings := filepath.Join(root, "etc/gapless/gapless.env")
	if err := os.WriteFile(settings, []byte("GAPLESS_HISTORY=1h\n"), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(root, "var/lib/gapless/log"), 0o700); err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	dpkg(t, root, "-i", deb)
	dpkg(t, root, "-r", "gapless")
	if text, err := os.ReadFile(settings); err != nil || string(text) != "GAPLESS_HISTORY=1h\n" {
		t.Errorf("the settings after an upgrade and a removal: %v %q", err, text)
	}
	if _, err := os.Stat(filepath.Join(root, "usr/bin/gapless")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the program after a removal: %v", err)
	}
	dpkg(t, root, "-P", "gapless")
	if _, err := os.Stat(settings); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the settings after a purge: %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, "var/lib/gapless/log")); err != nil {
		t.Errorf("the objects after a purge: %v", err)
	}
}

// checkUnit checks the installed unit as far as systemd can: what it says, and how exposed the service is.
func checkUnit(t *testing.T, root string) {
	t.Helper()
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not installed: the unit was not checked")
		return
	}
	text, err := os.ReadFile(filepath.Join(root, "usr/lib/systemd/system/gapless.service"))
	if err != nil || bytes.Count(text, []byte("ExecStart="+packageProgram+" ")) != 1 {
		t.Errorf("the unit does not start the package's program: %v\n%s", err, text)
	}
	// What it needs besides, like sysinit.target, is in this machine and not in root.
	unit := filepath.Join(t.TempDir(), "gapless.service")
	text = bytes.Replace(text, []byte(packageProgram), []byte(filepath.Join(root, packageProgram)), 1)
	if err := os.WriteFile(unit, text, 0o600); err != nil {
		t.Fatalf("write the unit: %v", err)
	}
	out, err := exec.CommandContext(t.Context(), program, "verify", "--man=no", unit).CombinedOutput()
	if err != nil || strings.Contains(string(out), "gapless.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// 10 is a service without any protection; the threshold is 1.5.
	out, err = exec.CommandContext(t.Context(), program, "security", "--offline=yes", "--threshold=15", "--no-pager",
		"--root="+root, "gapless.service").CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}

func TestTheRPMHasTheSameFiles(t *testing.T) {
	forLinux(t)
	file, err := os.Open(one(t, "gapless_*.rpm"))
	if err != nil {
		t.Fatalf("open a file: %v", err)
	}
	defer func() { _ = file.Close() }() // it is only read
	rpm, err := rpmutils.ReadRpm(file)
	if err != nil {
		t.Fatalf("read the package: %v", err)
	}
	infos, err := rpm.Header.GetFiles()
	if err != nil {
		t.Fatalf("read the package's files: %v", err)
	}
	has := map[string]rpmutils.FileInfo{}
	for _, info := range infos {
		has[info.Name()] = info
	}
	for _, name := range append(installedFiles, "/usr/share/zsh/site-functions/_gapless") {
		if has[name] == nil {
			t.Errorf("the package has no %s", name)
		}
	}
	const noReplace = 1<<0 | 1<<4 // RPMFILE_CONFIG, RPMFILE_NOREPLACE
	if env := has["/etc/gapless/gapless.env"]; env != nil && env.Flags() != noReplace {
		t.Errorf("the settings have the flags %x: an upgrade would replace them", env.Flags())
	}
	text, err := rpm.Header.GetString(rpmutils.POSTIN)
	if want, reading := os.ReadFile("../../deploy/packages/postinstall"); err != nil || reading != nil ||
		strings.TrimSpace(text) != strings.TrimSpace(string(want)) {
		t.Errorf("the script after an installation is %v\n%s", err, text)
	}
	payload, err := rpm.PayloadReaderExtended()
	if err != nil {
		t.Fatalf("read the payload: %v", err)
	}
	var program bytes.Buffer
	for {
		info, err := payload.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("read the payload: %v", err)
		}
		if info.Name() == packageProgram {
			if _, err := io.Copy(&program, payload); err != nil {
				t.Fatalf("read the program: %v", err)
			}
		}
	}
	if !bytes.HasPrefix(program.Bytes(), []byte("\x7fELF")) {
		t.Errorf("the program is %d bytes, and not one of Linux", program.Len())
	}
}
