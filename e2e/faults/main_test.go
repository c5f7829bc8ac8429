// Package faults_test tests the faults on whole servers: over real sockets, with the client
// and the informer, through the proxy too. compat/clientgo has client-go's informers.
package faults_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Informers wait most of the time, and only few tests run at once by default.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
