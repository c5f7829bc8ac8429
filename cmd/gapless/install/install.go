// Package install is the commands that make gapless the server of tests which use
// controller-runtime's package envtest: gapless envtest install and gapless envtest index.
//
// A [Program] is what the commands need of the program around them. The store is a directory
// in which setup-envtest and package envtest find programs, by the version of Kubernetes. An
// archive is what setup-envtest downloads, by an index.
package install

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gapless-io/gapless"
)

// Program is what the commands need of the program around them.
type Program struct {
	Out, Err io.Writer
	// Usage marks an error as one of the command line.
	Usage func(error) error
}

// Command returns the command envtest.
func (p Program) Command() *cobra.Command {
	parent := &cobra.Command{
		Use:   "envtest",
		Short: "Be the server of tests that use controller-runtime's envtest",
		Long: `Be the server of tests that use controller-runtime's package envtest: in the place of
kube-apiserver and etcd. docs/envtest.md says what differs from them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	parent.AddCommand(p.install(), p.index())
	return parent
}

// installFlags are the flags of `gapless envtest install`.
type installFlags struct {
	dir, as, print string
	force          bool
}

func (p Program) install() *cobra.Command {
	var f installFlags
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install gapless as kube-apiserver, etcd and kubectl of envtest",
		Long: `Install gapless as kube-apiserver, etcd and kubectl, where setup-envtest and package
envtest find them: three copies of this program in DIR/k8s/<version>-<os>-<arch>. It
prints the line that makes tests use them. The kubectl runs the one of PATH.`,
		Example: `  eval "$(gapless envtest install)"
  go test ./...

  # in a project whose Makefile asks setup-envtest for 1.35 in ./bin
  gapless envtest install --dir bin --as 1.35.0`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return p.runInstall(f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.dir, "dir", "", "directory of the store (default that of setup-envtest)")
	flags.StringVar(&f.as, "as", gapless.KubernetesVersion,
		"version of Kubernetes to install it as, for Makefiles and suites that ask for another one; the server stays the same")
	flags.StringVarP(&f.print, "print", "p", "env",
		"what to print: env for a line that a shell evaluates, path for the directory alone")
	flags.BoolVar(&f.force, "force", false, "replace other programs that are there")
	return cmd
}

func (p Program) runInstall(f installFlags) error {
	if f.print != "env" && f.print != "path" {
		return p.Usage(fmt.Errorf("--print %q: want env or path", f.print))
	}
	version, err := parseVersion(f.as)
	if err != nil {
		return p.Usage(fmt.Errorf("--as %w", err))
	}
	if f.dir == "" {
		if f.dir, err = defaultDir(runtime.GOOS, os.Getenv); err != nil {
			return err
		}
	}
	if f.dir, err = filepath.Abs(f.dir); err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	assets := filepath.Join(f.dir, "k8s", fmt.Sprintf("%s-%s-%s", version, runtime.GOOS, runtime.GOARCH))
	if err := installStore(assets, self, f.force); err != nil {
		return err
	}
	if f.print == "path" {
		_, err = fmt.Fprintln(p.Out, assets)
		return err
	}
	_, err = fmt.Fprintf(p.Out, "export KUBEBUILDER_ASSETS=%s\n", quote(assets))
	return err
}

// quote quotes a text for a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// parseVersion reads a version like 1.37.2, with or without v before it.
func parseVersion(text string) (string, error) {
	version := strings.TrimPrefix(text, "v")
	if !regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$`).MatchString(version) {
		return "", fmt.Errorf("%q: want a version like %s", text, gapless.KubernetesVersion)
	}
	return version, nil
}

// defaultDir is the directory that setup-envtest uses (DefaultStoreDir).
func defaultDir(system string, env func(string) string) (string, error) {
	home := env("HOME")
	switch system {
	case "windows":
		if base := env("LocalAppData"); base != "" {
			return filepath.Join(base, "kubebuilder-envtest"), nil
		}
		return "", errors.New("%LocalAppData% is not defined: name a directory with --dir")
	case "darwin", "ios":
		if home == "" {
			return "", errors.New("$HOME is not defined: name a directory with --dir")
		}
		return filepath.Join(home, "Library", "Application Support", "io.kubebuilder.envtest"), nil
	}
	base := env("XDG_DATA_HOME")
	if base == "" && home == "" {
		return "", errors.New("neither $XDG_DATA_HOME nor $HOME are defined: name a directory with --dir")
	}
	return filepath.Join(cmp.Or(base, filepath.Join(home, ".local", "share")), "kubebuilder-envtest"), nil
}
