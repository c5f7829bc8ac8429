// Package dropin is what gapless does when it is called by the name of another program:
// kube-apiserver, etcd or kubectl, as controller-runtime's package envtest and kwokctl start
// them. The commands of package install put it there.
//
// A [Program] is one of the three. A table says what becomes of each flag of such a program:
// table.go has those of kube-apiserver, etcdtable.go those of etcd. A setting is a flag on the
// command line with its value. A plan is what the settings of kube-apiserver come to: the
// arguments of `gapless serve`. A place is what etcd tells kube-apiserver: the directory in
// which the objects are kept.
package dropin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gapless-io/gapless"
)

// Names are the names of the programs.
func Names() []string { return []string{"kube-apiserver", "etcd", "kubectl"} }

// Program is one of the three programs.
type Program struct {
	Name string
	// Args are the arguments behind the name of the program.
	Args     []string
	In       io.Reader
	Out, Err io.Writer
	// Serve runs gapless with arguments, the first of which is serve, until ctx ends. It
	// returns the exit code.
	Serve func(ctx context.Context, args []string) int
}

// IsName reports whether a program that was started as path is one of the three, and which.
func IsName(path string) (name string, is bool) {
	name = strings.TrimSuffix(filepath.Base(path), ".exe")
	if slices.Contains(Names(), name) {
		return name, true
	}
	return "", false
}

// Run runs the program until ctx ends, or the process that started it has ended. It returns
// the exit code.
func (p Program) Run(ctx context.Context) int {
	if p.Name == "kubectl" {
		return p.kubectl(ctx)
	}
	ctx, stop := whileParentLives(ctx)
	defer stop()
	run := p.etcd
	if p.Name == "kube-apiserver" {
		run = p.apiserver
	}
	code, err := run(ctx)
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			_, _ = fmt.Fprintf(p.Err, "%s: error: %s\n", p.Name, strings.TrimSuffix(line, "\n"))
		}
		return 1
	}
	return code
}

// logger is for what the program does with its flags. The server has its own.
func (p Program) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(p.Err, nil))
}

// errAsked means that the command line only asked for a text, which was printed.
var errAsked = errors.New("asked for the help or the version")

// read reads the command line by a table, logs the flags that are ignored, and returns the
// others in their order. It returns errAsked after --help and --version.
func (p Program) read(ctx context.Context, t table) ([]setting, error) {
	settings, err := parse(t, p.Args)
	if err != nil {
		return nil, err
	}
	for _, s := range settings {
		switch s.name {
		case "help":
			_, _ = io.WriteString(p.Out, t.help(p.Name)) // envtest looks for flags in it
			return nil, errAsked
		case "version":
			if s.value != "false" {
				_, _ = io.WriteString(p.Out, p.versionLine())
				return nil, errAsked
			}
		}
	}
	kept, ignored, err := t.judge(settings)
	if err != nil {
		return nil, err
	}
	for _, s := range ignored {
		p.logger().LogAttrs(ctx, slog.LevelWarn, "a flag is ignored",
			slog.String("flag", "--"+s.name), slog.String("value", s.value), slog.String("reason", s.why))
	}
	return kept, nil
}

// versionLine is what --version prints. Other programs read the number in it.
func (p Program) versionLine() string {
	if p.Name == "etcd" {
		return "etcd Version: " + etcdVersion + "\nGit SHA: gapless " + gapless.Version().GitVersion + "\n"
	}
	return "Kubernetes " + gapless.Version().GitVersion + "\n"
}
