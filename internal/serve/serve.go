// Package serve has what a server and a relay have in common besides their requests: where they listen, the HTTP
// server in front of them and how it stops, the checks of their data directories before anything is written there,
// and the metrics of what they run. Package gapless puts them together.
package serve
