// Command cmd prints the import paths of the packages of the workspace whose tests can have a data race, or, with -not,
// of those whose tests cannot; see package concurrent.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/gapless-io/gapless/internal/house/concurrent"
)

func main() {
	not := flag.Bool("not", false, "those that cannot")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *not); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, not bool) error {
	list := exec.CommandContext(ctx, "go", "list", "-test", "-json=ImportPath,Dir,Deps,GoFiles,TestGoFiles,XTestGoFiles", "work")
	list.Stderr = os.Stderr
	said, err := list.Output()
	if err != nil {
		return fmt.Errorf("list the packages: %w", err)
	}
	can, cannot, err := concurrent.Split(bytes.NewReader(said), "github.com/gapless-io/gapless")
	if err != nil {
		return err
	}
	if not {
		can = cannot
	}
	_, err = fmt.Fprintln(out, strings.Join(can, "\n"))
	return err
}
