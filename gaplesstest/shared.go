package gaplesstest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/gapless-io/gapless/internal/scratch"
)

// Runner is what Main needs of a *testing.M, which runs the tests and returns what the program is
// to exit with.
type Runner interface{ Run() int }

// Main runs the tests of a package with one server, which use gets before they run, and returns
// what the program is to exit with:
//
//	var server *gaplesstest.Server
//
//	func TestMain(m *testing.M) {
//		os.Exit(gaplesstest.Main(context.Background(), m, func(s *gaplesstest.Server) { server = s }))
//	}
//
// Each package's tests are a program, so each package has a server of its own.
// A test that begins with server.Reset(t) finds the server as it was made. ReportOnFailure
// shows what the server saw if that test fails.
func Main(ctx context.Context, m Runner, use func(*Server), opts ...Option) (code int) {
	code, err := shared(ctx, m, use, opts)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gaplesstest:", err)
		return max(code, 1)
	}
	return code
}

func shared(ctx context.Context, m Runner, use func(*Server), opts []Option) (code int, err error) {
	dir, err := scratch.Make("suite")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, dir.Remove()) }()
	s, err := open(context.WithoutCancel(ctx), dir.Path(), opts)
	if err != nil {
		return 1, fmt.Errorf("start a server: %w", err)
	}
	use(s)
	code = m.Run()
	return code, s.close()
}

// ReportOnFailure logs the last requests and the open watches of a shared server if the test
// fails. Servers of New do so by themselves.
func (s *Server) ReportOnFailure(t testing.TB) {
	t.Helper()
	t.Cleanup(func() { s.report(t) })
}
