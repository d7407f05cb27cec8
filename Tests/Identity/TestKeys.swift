/// Keys made for these tests, and good for nothing else.
enum TestKeys {
    /// The issuer's.
    static let rsa = """
        -----BEGIN PRIVATE KEY-----
        MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCROVPzYBPtxxnU
        0P0AUM9rWDyBsL9e5/hVXrMVuiBbTt0HjK+YiLvafb+9JxyjHC9DOKcugxKK2Ea1
        7daLJCK41TjbNn9e+qKTn70FHlYU0nibW3MYHr+gIPy4wju2v8lnvzFGL0f4IR6+
        HOpSZINNj0R1QQcC8gdSAwO7D7RAileulbwp6TIt0vsnHYt8a6nSVPzB2gHaxmzC
        FKn8lFpJBK3L43vh5KJeWnFq7wAwxKsZ6Y5+/QzwZsnvhYdNdMyFnR9w6WzVjSYb
        u1nXlSzQG/uj8gGStt0jOBLkNI9Kp76O8VZYHHZKnN5JquMTP7ONqGrhtGR0pxRI
        hukniCP3AgMBAAECggEALZ0Ehc5ZJBejwOjtdnJrW8uIobGKwjv5D5Nhi4L9E8DX
        Ar6JDs9vtYZGuZo1z/OT0rjSJfVMVyjsOMtd1jFA6K4sIApjgkkV1GlZXOi03/Bl
        qmJUabCKvrhtuHhlehaOI5R1XRaPs9tvRQZfAQcKCMvllDCbC61KaFODEfeyRYzV
        LGE0lkTxR/8ZX9DBJ6JGk471q0Urq6/z0KFWeVGLQdOPe2bbCkQP1CbvmiAw2SR3
        4Su8ARrpe8dositxRHR3FwrhGZ6fTo6YdJY+VW8tFgoBT3K3CvC3wRljo1mCkmQL
        75mYHH8F4SO5dQNYmfFhMfua2ND0+qtAXfdjaycL3QKBgQDEyTRHtWkNYozJq+wr
        beJ02xZQHsZtiXpsjQwtwtqazwf8WCO/pface8uwy0xmcC+ws0y8LWUk+YacFk96
        WqsaVfUXXsjp+q7DLLFHih1LSv2yxPCf5r8cReG9unYVFqSH5k7wvbNbJMJhBM2C
        0jZ7HA4PMU3SBCz0QbsuTVq83QKBgQC87DQhXepZ5hnu6NNa9yTJEYQ91kYEOSy3
        dv0K1u+I+ZgwjEA/v7/oOJ8VrSM50aDl9aswlvcoD1b3j98CDI2yBKa0jAiPLWYY
        BrQfoEuoBe9TfhS1QX01HhFRwKKAmMc1l/Tixp1VuNIuNpJGyWDI0j/z7P5zGpsn
        9u4Jmyyc4wKBgQC2ByATDN3GAdkVW7C0Y4rMaTR0nGMUQ804yCfx1IJ+HO/YHnfC
        +XPrQCAkw4lCYJfcrZ5Xmu4qi55Wl9Sg62nGjKiQG59hv/8UjyzVbg627QFL8hxa
        7Qju0D2GUQqVa0J6azGuQuu7bX9YWyb20hiPPF5M82B22mHy9zJ8HBXJCQKBgBir
        h4sr5mRi5dQK1z6zszwGa4xfpLj8dlhm01hNBO6QGU2Nov4wHfFHI48DEuyD8UzW
        LcqkjBXRGvws72QnG4G5lcNR3fREa2aLyY2vsvF4BO6UMkQRDzaWfJB+ZToBuVHI
        TBQo93awMdITEjroJRlUS0GhGwEQ4l3votniR4sdAoGAJ0vHI8LoViU7nFF66cr8
        Ku8zNviF+g6T+j4DUy7cg5wifPQYgm+895RRRVrRUah9D0NAC2Cp/BlHtDviYZJh
        l08K33RVORA3x7YS0fyjnuvNysr+d/T13QdQVt55fOKHrodp3yrNFlAPYdSjE6fa
        GKrc4uWexdWyxanoLZLkIY8=
        -----END PRIVATE KEY-----
        """

    /// Another one's.
    static let otherRSA = """
        -----BEGIN PRIVATE KEY-----
        MIIEvAIBADANBgkqhkiG9w0BAQEFAASCBKYwggSiAgEAAoIBAQDzhnMaWurZJJaM
        4UmEfwOcpO57z31xCiawbTOc8YQ7hWsq4WutnYKCRWGz3+qxApVKLZB9RZSTyVIj
        BJ3DVYtOPT+Knn/FIqJHTGDXGI2TAjG+JrJZFiWIKouAulgaTJDsCAyDe503YUHU
        4nI6Q48DHIOYDLEjKC3P8mGH4jpSkkvxAeKXSIpKXe5+aBCNghKSI75ouUqTG3zr
        2XMypgjn/7mLqP5yISPRmNCRlmRMmpLcUv5ZM8R576+W/37JuR5bdHtIN5X5OrQe
        kRcBs5ZutM5bAljqQuxhJUxOJhextuZ3puUstusFvqvja/zVlX4GS8bo+aidbEf5
        cfldhR0TAgMBAAECggEAb1pIIYH3JwlK6epN4o7tiOAFyIlM87ZPkJauZhItg8Xz
        Be2DfiSqu4ScM1KtDvl+aCfDjPSXBqikrSx8MwhXpZPuDSWCiRLYHz/2fARXICR9
        uFQbcw7kZIoHtfn/NS9TiQn5JtoMPnlzT7OnxaqEp0iPh6QuD0RdBlvvauHwBzbH
        uO2XGre7u/wGgLCVZtksUQLqL0c+/mtEJHYCjJ5uGTTwL3KvVUpOQ9ADhSE0fFAV
        YWBYkXdaMNpVoGasz8X15OlpD0Y+t6nJV+ahM0p/yTYxbJsF7rXCV+PK4hEgiSFo
        5EjHCdsOZQjJG+2Mj45mqtbJ9QdlO7+DojuPaLWViQKBgQD6nv2y6TYGDFgymRm/
        ua6+YETfRc6dimITZbzeyfGBNrdcG3xM+MAJUskunjABa+pF5TCZXXvy/2CM14Uk
        u+4iF9oE1hy9M44fhWQ8lrYO32Ui5uXxJ9W4qWpWbv6HATa73XuUEj6NsEmVVUs2
        M/4RMTN6htZ4cJP8onxfDXvqRwKBgQD4wHiflkye0AUL4A0o2AGr+nOxXw/4nU5F
        5PxkACJBWtJGhfWr4P0WyWu/iHSy133o4iN/ODfk0VcZkRjM7sSFen8Q/rUCSmXy
        +Pk+5fCcvV2A52iKxRYDs7bNVD/qVazAMCPA9N1AiRaNkzAw/MBVmBiOb/KyiTg3
        pG6HN6NQ1QKBgG2z0JtS5/nnx2eGirXYwnvEygDtno5pN5sECpN+0/7ag5KG2Xcb
        33t1SGjmh17n7OlhdE99kzb/wDSGVlqJBKjZxe4eBwBuo8R6cDDxS4nhEXUgmwBf
        jnbBebGR7koMJvg+78wV3FnLE7qRVlXIlmrSHZWBljmsFasdONGmplobAoGAXItO
        1SCXtOXzWq2qd62VQaRV8oFJcdckTcCZXaLnG6VsYaxo798uiZG6MnHT6M1fHIs1
        ZZlGwixX2T0wGt4h4v7l0y7PrOB8+V5DbHEjiUyyQsjVDfuw6wOrWMylUss5D+9Y
        /eqbfe0CpP1DipYeADoruKJRiraeYaUdMdUzP1kCgYAKLbV+CsqWE9FO9gbBMWMH
        AHq7dJHKjLTdieonYJelPldVEsyYQZXvk52ZEGwz5q10Y09kXPSeD0oJO5e0T4Gt
        orrQihf0vBdSIpTSTIP7n38OExY0NnZ093+TMO0NbgOT2lxP/owW89gHWjrthR1z
        WxsVFoK+pv79x+Mw5LqAGA==
        -----END PRIVATE KEY-----
        """

    /// Of ``rsa``, signed by itself.
    static let certificate = """
        -----BEGIN CERTIFICATE-----
        MIIDHzCCAgegAwIBAgIUYhezCrTEGHeYubqG7TUsK6tk7yAwDQYJKoZIhvcNAQEL
        BQAwHjEcMBoGA1UEAwwTc2VjdXJldG9rZW4uZXhhbXBsZTAgFw0yNjExMjEwNjE0
        MTlaGA8yMTI2MTAyODA2MTQxOVowHjEcMBoGA1UEAwwTc2VjdXJldG9rZW4uZXhh
        bXBsZTCCASIwDQYJKoZIhvcNAQEBBQADggEPADCCAQoCggEBAJE5U/NgE+3HGdTQ
        /QBQz2tYPIGwv17n+FVesxW6IFtO3QeMr5iIu9p9v70nHKMcL0M4py6DEorYRrXt
        1oskIrjVONs2f176opOfvQUeVhTSeJtbcxgev6Ag/LjCO7a/yWe/MUYvR/ghHr4c
        6lJkg02PRHVBBwLyB1IDA7sPtECKV66VvCnpMi3S+ycdi3xrqdJU/MHaAdrGbMIU
        qfyUWkkErcvje+Hkol5acWrvADDEqxnpjn79DPBmye+Fh010zIWdH3DpbNWNJhu7
        WdeVLNAb+6PyAZK23SM4EuQ0j0qnvo7xVlgcdkqc3kmq4xM/s42oauG0ZHSnFEiG
        6SeII/cCAwEAAaNTMFEwHQYDVR0OBBYEFHmDT8YqRRwjA9Qail7pSXbR8vvpMB8G
        A1UdIwQYMBaAFHmDT8YqRRwjA9Qail7pSXbR8vvpMA8GA1UdEwEB/wQFMAMBAf8w
        DQYJKoZIhvcNAQELBQADggEBAAc3fNGSbc8v5TTfpdmSPMJm7lt4juT0ts2U3/63
        /JL9xuoskUJqXjlrPH+IJzrQfWciwwS5EUENQyMGGbnDFtdY+IeF6xIs+lBs8u74
        4RDA8c2wqA3xvxoxtPtPaNWSAhiJh8nkz6qD+t4lmQjdHwSK2HWf/G2PMnZo0Nxx
        wwiJ6kJxK3Fed4QFp/O7RxOzxhOhGroWxJcBdTu7ne5UNVkNaFvd732nr6Ooc9zV
        o8ydTQCNOChZkLJ1QvFaIndfhrB+pVt9pBsPAoB/+mlDyC0p58ss3PSDAbKUQjL+
        kYb85VyW2Uz3iw5fLNbck7OdaDD2F03jOWP8SgXOgXjQj6o=
        -----END CERTIFICATE-----
        """

    /// A public key of 1024 bits, too few.
    static let smallRSA = """
        -----BEGIN PUBLIC KEY-----
        MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDkjBtCIKu3ehKxC6ce6OuOP9Xc
        pdm7aVhOTun7zzu6zRHNUB3fBE5FvnEg2HEVWk84GgaCuAwRJJrAPrubaU51Cbfc
        bemG/uQfmqDOgnBbFKaM7BzLjOJpmhCGBjGzPhaItCcPkVsLyDwC5SN2RHjIDQOa
        0dSUROwZNW6Ri/NoFwIDAQAB
        -----END PUBLIC KEY-----
        """
}
