// Package faults_test tests the faults on whole servers: over real sockets, with the client
// and the informer, through the proxy too.
package faults_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
