#!/usr/bin/env bash
# Makes the certificates of the tests anew: an issuer, servers for several names and key types, and a client.
# They are of use for these tests only: everybody has the keys.
set -Eeuo pipefail
cd "$(dirname "$0")"
days=36500
issue() { # issue NAME KEYTYPE SUBJECT EXTENSIONS…
    local name=$1 key=$2 subject=$3
    shift 3
    case $key in
        ec) openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$name.key" ;;
        rsa*) openssl genpkey -algorithm RSA -pkeyopt "rsa_keygen_bits:${key#rsa}" -out "$name.key" ;;
    esac
    openssl req -new -key "$name.key" -subj "/CN=$subject" -out "$name.csr"
    openssl x509 -req -in "$name.csr" -CA issuer.pem -CAkey issuer.key -CAcreateserial -days $days -out "$name.pem" \
        -extfile <(printf '%s\n' "$@")
    rm "$name.csr"
}
self() { # self NAME SUBJECT
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out "$1.pem" \
        -subj "/CN=$2" -days $days
}
later() { # later NAME SUBJECT: valid in the year 2030 only
    local folder
    folder=$(mktemp -d)
    touch "$folder/index.txt"
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key"
    openssl req -new -key "$1.key" -subj "/CN=$2" -out "$folder/request"
    openssl ca -batch -notext -md sha256 -cert issuer.pem -keyfile issuer.key -in "$folder/request" -out "$1.pem" \
        -startdate 20300101000000Z -enddate 20310101000000Z -config <(printf '%s\n' '[ca]' 'default_ca=a' '[a]' \
        "database=$folder/index.txt" "new_certs_dir=$folder" 'rand_serial=yes' 'policy=p' '[p]' 'commonName=supplied')
    rm -r "$folder"
}
self issuer "Pando test issuer"
self stranger "stranger"
issue localhost ec localhost 'subjectAltName=DNS:localhost,IP:127.0.0.1' 'extendedKeyUsage=serverAuth'
issue rsa rsa2048 rsa.example.com 'subjectAltName=DNS:rsa.example.com,DNS:localhost' 'extendedKeyUsage=serverAuth'
issue rsa4096 rsa4096 rsa4096.example.com 'subjectAltName=DNS:rsa4096.example.com,DNS:localhost' 'extendedKeyUsage=serverAuth'
issue wild ec wild 'subjectAltName=DNS:*.example.com,DNS:other.example.org' 'extendedKeyUsage=serverAuth'
issue client ec administrator 'extendedKeyUsage=clientAuth'
later later later.example.com
rm -f issuer.srl
