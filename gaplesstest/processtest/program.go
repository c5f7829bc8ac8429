package processtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

const (
	// programVariable names the program, for all servers that do not.
	programVariable = "GAPLESS_PROGRAM"
	root            = "github.com/gapless-io/gapless"
	thisModule      = root + "/gaplesstest/processtest"
)

// find returns the path of the program.
func find(ctx context.Context, o options) (string, error) {
	path, from := o.program, "Program"
	if path == "" && o.version == "" {
		path, from = os.Getenv(programVariable), programVariable
	}
	if path == "" {
		return builds.program(ctx, o.version)
	}
	full, err := exec.LookPath(path)
	if err == nil {
		full, err = filepath.Abs(full)
	}
	if err != nil {
		return "", fmt.Errorf("find the program that %s names: %w", from, err)
	}
	return full, nil
}

// builds are the programs that this process has built.
//
//nolint:gochecknoglobals // a version is built once in a process
var builds = &builder{done: map[string]string{}}

// builder builds the program, once for each version.
type builder struct {
	// mu guards done, and is held during a build: others want the same one.
	mu   sync.Mutex
	done map[string]string // paths, by version
}

// program returns the path of a version; "" is that of this module.
func (b *builder) program(ctx context.Context, version string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if path := b.done[version]; path != "" {
		return path, nil
	}
	path, err := build(ctx, version)
	if err != nil {
		return "", fmt.Errorf("%w; or name the program by %s or processtest.Program", err, programVariable)
	}
	b.done[version] = path
	return path, nil
}

// build builds a version if it is not in the directory of the user's caches.
func build(ctx context.Context, version string) (string, error) {
	caches, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the directory for the program: %w", err)
	}
	caches = filepath.Join(caches, "gapless", "programs")
	source := ""
	if version == "" {
		if version, source, err = own(ctx); err != nil {
			return "", err
		}
	}
	if source != "" { // whoever changes the program wants what it is now: the go command knows
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(source)) // it never fails
		dir := filepath.Join(caches, fmt.Sprintf("source-%x", hash.Sum64()))
		return filepath.Join(dir, programName()), locked(dir, func() error {
			return goCommand(ctx, source, nil, "build", "-o", filepath.Join(dir, programName()), "./cmd/gapless")
		})
	}
	dir := filepath.Join(caches, version+"-"+runtime.GOOS+"-"+runtime.GOARCH)
	path := filepath.Join(dir, programName())
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, locked(dir, func() error { return install(ctx, version, path) })
}

func programName() string {
	if runtime.GOOS == "windows" {
		return "gapless.exe"
	}
	return "gapless"
}

// locked makes a directory and does something while no other process does it there.
func locked(dir string, do func() error) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make a directory for the program: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("lock the directory of the program: %w", err)
	}
	if err = await(f); err == nil {
		err = do()
	}
	return errors.Join(err, f.Close())
}

// install builds a released version.
func install(ctx context.Context, version, path string) (err error) {
	if _, err := os.Stat(path); err == nil { // by the process that had the lock
		return nil
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), "new-")
	if err != nil {
		return fmt.Errorf("make a directory for the program: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := goCommand(ctx, dir, []string{"GOBIN=" + dir, "GOWORK=off"}, "install", root+"/cmd/gapless@"+version); err != nil {
		return err
	}
	return os.Rename(filepath.Join(dir, programName()), path)
}

// own returns the version of this module in the tests that use it, or the directory of its
// repository if it is used from there: in the repository itself, and by a replace line.
func own(ctx context.Context) (version, source string, err error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-json", thisModule)
	cmd.Stdout = &out
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return "", "", fmt.Errorf("find the version of the program: go list -m %s: %w: %s",
			thisModule, err, bytes.TrimSpace(said.Bytes()))
	}
	var module struct {
		Version, Dir string
		Main         bool
		Replace      *struct{ Version, Dir string }
	}
	if err := json.Unmarshal(out.Bytes(), &module); err != nil {
		return "", "", fmt.Errorf("find the version of the program: %w", err)
	}
	version, dir, local := module.Version, module.Dir, module.Main
	if module.Replace != nil {
		version, dir, local = module.Replace.Version, module.Replace.Dir, module.Replace.Version == ""
	}
	if !local {
		return version, "", nil
	}
	return "", filepath.Dir(filepath.Dir(dir)), nil
}

// goCommand runs the go command.
func goCommand(ctx context.Context, dir string, environment []string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), environment...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the program: go %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
