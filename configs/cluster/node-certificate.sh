#!/bin/sh
# Creates this node's certificate for Ray's TLS in FOLDER, signed by the cluster's authority: ca.crt and ca.key in
# the same folder. Ray checks the address that it connects to, so the certificate must contain this node's.
#   node-certificate.sh FOLDER [ADDRESS...]      default: all addresses of this host
set -eu
cd "$1"
shift
[ $# -gt 0 ] || set -- $(hostname -I)
names=IP:127.0.0.1
for address; do names="$names,IP:$address"; done
umask 077
echo "subjectAltName=$names" > names
openssl req -newkey rsa:2048 -nodes -subj /CN=ray -keyout tls.key -out tls.csr
openssl x509 -req -days 365 -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -extfile names -out tls.crt
