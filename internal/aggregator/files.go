package aggregator

import (
	"crypto/tls"
	"errors"
	"fmt"
)

// CheckFiles returns an error for a client certificate and its key that cannot be used; "" are none.
func CheckFiles(cert, key string) error {
	switch {
	case cert == "" && key == "":
		return nil
	case cert == "" || key == "":
		return errors.New("a client certificate for servers behind needs both files: " +
			"set --proxy-client-cert-file and --proxy-client-key-file, or neither")
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		return fmt.Errorf("the client certificate for servers behind (--proxy-client-cert-file %s, --proxy-client-key-file %s): "+
			"want a certificate and its key in PEM: %w", cert, key, err)
	}
	return nil
}
