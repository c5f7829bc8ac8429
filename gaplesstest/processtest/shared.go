package processtest

import (
	"context"
	"fmt"
	"os"
)

// Runner is what Main needs of a *testing.M, which runs the tests and returns what the program is
// to exit with.
type Runner interface{ Run() int }

// Main runs the tests of a package with one server, which use gets before they run, and returns
// what the program is to exit with:
//
//	var server *processtest.Server
//
//	func TestMain(m *testing.M) {
//		os.Exit(processtest.Main(context.Background(), m, func(s *processtest.Server) { server = s }))
//	}
//
// Each package's tests are a program, so each package has a server of its own.
// A test that begins with server.Reset(t) finds the server as it was made. ReportOnFailure
// shows what the server saw if that test fails.
func Main(ctx context.Context, m Runner, use func(*Server), opts ...Option) int {
	s, err := open(context.WithoutCancel(ctx), opts)
	if err != nil {
		fmt.Fprintln(os.Stderr, "processtest: start a server:", err)
		return 1
	}
	use(s)
	code := m.Run()
	if err := s.close(); err != nil {
		fmt.Fprintln(os.Stderr, "processtest: end the server:", err)
		return max(code, 1)
	}
	return code
}
