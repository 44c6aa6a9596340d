"""Some packets of captures as a capture of their own.

wanted    which packets: stretches of time of connections, from the records
packets   reads the captures again and gives these packets, in time order
capture   writes them as pcapng
"""
