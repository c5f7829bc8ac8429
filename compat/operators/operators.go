// Package operators runs operators with webhooks on the built program: cert-manager, and
// prometheus-operator with certificates from it. Their definitions, roles and webhook
// configurations are read from their modules; each program has the token of its own service
// account, and so no more rights than its own roles give it.
//
// A cluster is the server with what is installed in it. A program is one of the operators'
// own, which runs until the test ends. A set is the programs that one command installs. A
// manifest is an object that is read from a file of an operator's module. A claim is what the
// operators do, and how that is checked.
package operators
