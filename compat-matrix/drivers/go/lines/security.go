package lines

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// TLSConfig is nil when the session does not ask for TLS.
func (b Begin) TLSConfig() (*tls.Config, error) {
	if b.TLS == nil {
		return nil, nil
	}
	pem, err := os.ReadFile(b.TLS.CAFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", b.TLS.CAFile)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}
