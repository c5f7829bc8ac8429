// Command cmd wraps the long lines of the Go files that are named, or below the directories that
// are; see package wrap. It prints the files that it changed. With -l, it changes nothing and
// prints the lines that are too long.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gapless-io/gapless/internal/house/wrap"
)

func main() {
	list := flag.Bool("l", false, "only list the lines that are too long")
	flag.Parse()
	if err := run(os.Stdout, *list, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out io.Writer, list bool, paths []string) error {
	for _, path := range paths {
		err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && wrap.Skips(d.Name()):
				return fs.SkipDir
			case d.IsDir() || filepath.Ext(name) != ".go":
				return nil
			}
			return file(out, list, name)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// file wraps one file, or lists its long lines.
func file(out io.Writer, list bool, name string) error {
	src, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if list {
		for i, line := range strings.Split(string(src), "\n") {
			if wrap.TooLong(line, wrap.MaxColumns) {
				fmt.Fprintf(out, "%s:%d: %d columns\n", name, i+1, wrap.Columns(line))
			}
		}
		return nil
	}
	wrapped, err := wrap.Source(src, wrap.MaxColumns)
	if err != nil {
		return fmt.Errorf("wrap %s: %w", name, err)
	}
	if bytes.Equal(src, wrapped) {
		return nil
	}
	fmt.Fprintln(out, name)
	return os.WriteFile(name, wrapped, 0o600)
}
